//! `pleach cat`: a file of a snapshot on stdout, checked against its hash.

use crate::diff::take;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn cat(repo: &Path, id: &str, path: &Path) -> std::process::Output {
    command(["cat".as_ref(), repo.as_os_str(), id.as_ref(), path.as_os_str()]).output().unwrap()
}

fn refused(repo: &Path, path: &Path, why: &str) {
    let run = pleach(["cat".as_ref(), repo.as_os_str(), "one".as_ref(), path.as_os_str()]).expect(1).saying(why);
    assert_eq!(run.stdout, "");
}

on_filesystems! {
    fn the_content_is_printed_byte_by_byte(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        take("one", &source, &repo);
        for name in ["empty", "tiny", "unaligned", "large", "sparse", "hole", "names/line\nbreak", "names/-rf"] {
            let found = cat(&repo, "latest", &source.join(name));
            assert_eq!(found.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&found.stderr));
            assert!(found.stdout == fs::read(source.join(name)).unwrap() && found.stderr.is_empty(), "{name}");
        }
        refused(&repo, &source.join("links/dangling"), "a symbolic link to nowhere");
        refused(&repo, &source.join("links"), "it is a directory");
        refused(&repo, Path::new("/"), "it is a directory");
        refused(&repo, &source.join("nodes/fifo"), "a named pipe");
        refused(&repo, &source.join("nodes/null"), "a device");
        refused(&repo, &source.join("nodes/socket"), "a socket");
        refused(&repo, &source.join("nowhere"), "cannot find");
        refused(&repo, &source.join("tiny/below"), "cannot find");
        let words = |more: &'static str| ["cat".as_ref(), repo.as_os_str(), "one".as_ref(), OsStr::new(more)];
        pleach(words("tiny")).expect(2).saying("not absolute");
        pleach(words("/x").into_iter().chain(["--json".as_ref()])).expect(2).saying("prints a file");
    }

    fn content_that_differs_from_the_manifest_is_damage_and_said_so(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("flipped"), &bytes(1, 600_000));
        write(source.join("cut"), &bytes(2, 50_000));
        take("one", &source, &repo);
        if fs.kind == Kind::Btrfs {
            tools::set_read_only(&repo.join("one"), false);
        }
        let tree = inside(&repo, "one", &source);
        overwrite(&tree.join("flipped"), 300_000, b"x");
        fs::File::options().write(true).open(tree.join("cut")).unwrap().set_len(40_000).unwrap();
        for (name, why) in [("flipped", "does not match the hash"), ("cut", "its size differs")] {
            let found = cat(&repo, "one", &source.join(name));
            let said = String::from_utf8_lossy(&found.stderr).into_owned();
            assert_eq!(found.status.code(), Some(4), "{said}");
            assert!(said.contains(why) && said.contains("already printed"), "{said}");
            assert_eq!(found.stdout, fs::read(tree.join(name)).unwrap());
        }
    }

    fn whatever_took_the_place_of_a_file_it_ends_and_is_damage(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for name in ["grown", "pipe", "zero", "gone", "lost"] {
            write(source.join(name), &bytes(1, 50_000));
        }
        take("one", &source, &repo);
        if fs.kind == Kind::Btrfs {
            tools::set_read_only(&repo.join("one"), false);
        }
        let tree = inside(&repo, "one", &source);
        overwrite(&tree.join("grown"), 50_000, &bytes(2, 40_000));
        for (name, args) in [("pipe", &["p"][..]), ("zero", &["c", "1", "5"]), ("gone", &[])] {
            fs::remove_file(tree.join(name)).unwrap();
            if !args.is_empty() {
                finish(Command::new("mknod").arg(tree.join(name)).args(args)).expect(0);
            }
        }
        for (name, printed) in [("grown", 50_000), ("pipe", 0), ("zero", 0), ("gone", 0)] {
            // An endless content would fill the pipe.
            let found = cat(&repo, "one", &source.join(name));
            assert_eq!((found.status.code(), found.stdout.len()), (Some(4), printed), "{name}");
        }
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=pread64,preadv,read:error=EIO", "-P"]);
        strace.arg(tree.join("lost")).arg(env!("CARGO_BIN_EXE_pleach")).args(["cat".as_ref(), repo.as_os_str()]);
        finish(strace.arg("one").arg(source.join("lost")).stdin(Stdio::null())).expect(4).saying("lost");
    }

    [xfs] fn a_reader_that_leaves_early_is_no_error_and_no_link_in_the_tree_is_followed(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("large"), &bytes(1, 8 << 20));
        fs::create_dir(source.join("dir")).unwrap();
        write(source.join("dir/file"), b"of the snapshot");
        take("one", &source, &repo);
        let path = source.join("large");
        let mut pleach = command(["cat".as_ref(), repo.as_os_str(), "one".as_ref(), path.as_os_str()]);
        let mut running = pleach.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let head = || {
            let mut head = Command::new("head");
            // The pipe ends with the command.
            head.args(["-c", "1000"]).stdin(running.stdout.take().unwrap()).output().unwrap().stdout
        };
        let mut head = head;
        assert_eq!(head(), bytes(1, 1000));
        let ended = running.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()));

        let outside = fs.dir("outside");
        write(outside.join("file"), b"a secret");
        let tree = inside(&repo, "one", &source);
        fs::remove_dir_all(tree.join("dir")).unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("dir")).unwrap();
        let found = cat(&repo, "one", &source.join("dir/file"));
        assert_eq!((found.status.code(), found.stdout), (Some(4), Vec::new()));
    }
}
