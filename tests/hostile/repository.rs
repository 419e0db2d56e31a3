//! A repository that somebody else made, on a disk for example: its files are not what they should be. Nothing outside
//! of it changes, and nothing but regular files is opened.

use crate::harness::*;
use crate::on_filesystems;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::Command;

/// The device that reads zeros, `/dev/zero`: to open it does no harm.
const DEVICE: (u32, u32) = (1, 5);

/// Replaces a file by a device or a pipe.
fn replace(path: &Path, kind: FileType) {
    fs::remove_file(path).unwrap();
    let device = if kind == FileType::Fifo { 0 } else { makedev(DEVICE.0, DEVICE.1) };
    mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device).unwrap();
}

on_filesystems! {
    [xfs] fn nothing_but_regular_files_is_opened_in_a_tree(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("devicename"), &bytes(1, 5000));
        write(source.join("pipename"), &bytes(2, 5000));
        settle();
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        write(source.join("other"), b"other");
        settle();
        pleach(snapshot_named("two", &source, &repo)).expect(0);
        for name in ["one", "two"] {
            let tree = repo.join(name).join(source.strip_prefix("/").unwrap());
            replace(&tree.join("devicename"), FileType::CharacterDevice);
            replace(&tree.join("pipename"), FileType::Fifo);
            assert!(fs::symlink_metadata(tree.join("pipename")).unwrap().file_type().is_fifo());
        }
        let (device, target, copy, log) = (source.join("devicename"), fs.dir("to"), fs.join("copy"), fs.join("log"));
        let repo = repo.as_os_str();
        let commands: [&[&OsStr]; 6] = [
            &["restore".as_ref(), repo, "one".as_ref(), "--target".as_ref(), target.as_ref()],
            &["cat".as_ref(), repo, "one".as_ref(), device.as_ref()],
            &["verify".as_ref(), repo],
            &["verify".as_ref(), repo, "--repair-from".as_ref(), "two".as_ref()],
            &["replicate".as_ref(), repo, copy.as_ref()],
            &["diff".as_ref(), repo, "one".as_ref(), "two".as_ref()],
        ];
        for args in commands {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-e", "trace=openat,openat2,open", "-o"]).arg(&log);
            strace.arg(env!("CARGO_BIN_EXE_pleach")).args(args).env_remove("PLEACH_REPO");
            let run = finish(&mut strace);
            assert!([0, 3, 4].contains(&run.status), "{args:?}: {run:?}");
            let log = fs::read_to_string(&log).unwrap();
            let opened = log.lines().filter(|line| {
                (line.contains("devicename") || line.contains("pipename")) && !line.contains("O_PATH")
            });
            let opened: Vec<_> = opened.collect();
            assert!(opened.is_empty(), "{args:?}: {opened:#?}");
        }
        assert!(!target.join(source.strip_prefix("/").unwrap()).join("devicename").exists());
    }

    fn a_file_with_other_names_is_not_written(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("f"), b"hi");
        snapshot(&source, &repo);
        let victim = fs.join("victim");
        write(&victim, b"precious");
        fs::remove_file(repo.join(".pleach/lock")).unwrap();
        fs::hard_link(&victim, repo.join(".pleach/lock")).unwrap();
        settle();
        pleach(["tag".as_ref(), repo.as_os_str(), "latest".as_ref(), "+a".as_ref()]).expect(4).saying("hard link");
        pleach(["snapshot".as_ref(), source.as_os_str(), repo.as_os_str()]).expect(4).saying("replace it by a copy");
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        // The advice helps.
        fs::copy(&victim, repo.join(".pleach/new")).unwrap();
        fs::rename(repo.join(".pleach/new"), repo.join(".pleach/lock")).unwrap();
        snapshot(&source, &repo);
    }
}
