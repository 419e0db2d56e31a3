//! Another user prepares the target of root: nothing there becomes more powerful by a restore or a copy, and nothing
//! private is readable on the way.

use crate::harness::tools::{TRACE, assert_equal_trees, inventory, take_trace, tool};
use crate::harness::*;
use crate::on_filesystems;
use pleach::copy_tree;
use pleach::monitor::{Amount, Monitor};
use pleach::snapshot::restore;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The other user.
const MALLORY: u32 = 4242;
/// The owner of some files.
const ANN: u32 = 4343;

/// A command that writes a tree into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Restore,
    Copy,
}

const WRITERS: [Writer; 2] = [Writer::Restore, Writer::Copy];

impl Writer {
    /// The directory that it writes the source to. `target` is the argument.
    fn inside(self, source: &Path, target: &Path) -> PathBuf {
        match self {
            Writer::Restore => target.join(source.strip_prefix("/").unwrap()),
            Writer::Copy => target.to_path_buf(),
        }
    }

    /// Its arguments.
    fn args<'a>(self, repo: &'a Path, source: &'a Path, target: &'a Path) -> Vec<&'a OsStr> {
        match self {
            Writer::Restore => {
                vec!["restore".as_ref(), repo.as_ref(), "latest".as_ref(), "--target".as_ref(), target.as_ref()]
            }
            Writer::Copy => vec!["copy".as_ref(), "-T".as_ref(), source.as_ref(), target.as_ref()],
        }
    }

    /// A new target with the directories of another user.
    fn target(self, fs: &Filesystem, source: &Path, dirs: &[&str]) -> (PathBuf, PathBuf) {
        let target = fs.dir(format!("{self:?}"));
        let inside = self.inside(source, &target);
        for dir in [""].iter().chain(dirs) {
            let dir = inside.join(dir);
            fs::create_dir_all(&dir).unwrap();
            chown(&dir, Some(MALLORY), Some(MALLORY)).unwrap();
        }
        (target, inside)
    }
}

/// Writes a file with this owner, mode and content, and a fixed time.
fn file(path: &Path, uid: u32, mode: u32, content: &[u8]) {
    write(path, content);
    chown(path, Some(uid), Some(uid)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    // A write clears it.
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn ino(path: &Path) -> u64 {
    path.symlink_metadata().unwrap().ino()
}

/// Looks at the target whenever an entry is done, and whenever the engine asks whether it should stop.
struct Spy<F>(F, AtomicU64);

impl<F: Fn() -> bool> Spy<F> {
    fn look(&self) {
        self.1.fetch_add(u64::from((self.0)()), Ordering::Relaxed);
    }
}

impl<F: Fn() -> bool + Sync> Monitor for Spy<F> {
    fn advance(&self, _: Amount) {
        self.look();
    }

    fn is_cancelled(&self) -> bool {
        self.look();
        false
    }
}

on_filesystems! {
    fn no_inode_of_another_user_becomes_powerful(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let good = bytes(1, 5000);
        file(&source.join("tool"), 0, 0o4755, &good);
        file(&source.join("group"), 0, 0o2755, &good);
        file(&source.join("ping"), 0, 0o755, &good);
        tool("setcap", &["cap_net_raw=ep"], &source.join("ping"));
        file(&source.join("plain"), 0, 0o644, &good);
        file(&source.join("writable"), 0, 0o644, &good);
        file(&source.join("ann"), ANN, 0o644, &good);
        file(&source.join("ours"), ANN, 0o644, &good);
        snapshot(&source, &repo);
        for writer in WRITERS {
            let (target, inside) = writer.target(fs, &source, &[]);
            let evil = bytes(2, 5000);
            for (name, uid, mode) in
                [("tool", MALLORY, 0o755), ("group", 0, 0o755), ("ping", MALLORY, 0o755), ("plain", MALLORY, 0o644)]
            {
                file(&inside.join(name), uid, mode, &evil);
            }
            // It can be written by a group, and would get another one.
            file(&inside.join("writable"), 0, 0o664, &evil);
            chown(inside.join("writable"), None, Some(MALLORY)).unwrap();
            // These stay as they are, except for their metadata.
            file(&inside.join("ann"), ANN, 0o600, &good);
            file(&inside.join("ours"), 0, 0o600, &good);
            let replaced = ["tool", "group", "ping", "plain", "writable"];
            let open = |name: &&str| File::options().write(true).open(inside.join(name)).unwrap();
            let held: Vec<_> = replaced.iter().map(open).collect();
            let kept = ["ann", "ours"].map(|name| ino(&inside.join(name)));
            settle();
            pleach(writer.args(&repo, &source, &target)).expect(0);
            held.iter().for_each(|file| file.write_all_at(b"evil", 0).unwrap());
            assert_equal_trees(&source, &inside);
            assert_eq!(["ann", "ours"].map(|name| ino(&inside.join(name))), kept, "{writer:?}");
            // A finished result stays.
            let before = inventory(&inside);
            settle();
            pleach(writer.args(&repo, &source, &target)).expect(0);
            assert_same_lines(&inventory(&inside), &before);
        }
    }

    fn no_inode_of_another_user_gets_further_names(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        fs::create_dir_all(source.join("m")).unwrap();
        fs::create_dir_all(source.join("r")).unwrap();
        file(&source.join("m/x"), 0, 0o755, b"good");
        fs::hard_link(source.join("m/x"), source.join("r/x")).unwrap();
        snapshot(&source, &repo);
        for (writer, never) in [(Writer::Restore, false), (Writer::Restore, true), (Writer::Copy, false)] {
            let (target, inside) = writer.target(fs, &source, &["m"]);
            let _ = fs::remove_dir_all(inside.join("r"));
            let _ = fs::remove_file(inside.join("m/x"));
            file(&inside.join("m/x"), MALLORY, 0o755, b"good");
            let held = File::options().write(true).open(inside.join("m/x")).unwrap();
            settle();
            let options: &[&str] = if never { &["--overwrite", "never"] } else { &[] };
            pleach(writer.args(&repo, &source, &target).into_iter().chain(options.iter().map(OsStr::new))).expect(0);
            held.write_all_at(b"evil", 0).unwrap();
            assert_eq!(fs::read(inside.join("r/x")).unwrap(), b"good", "{writer:?} {never}");
            assert_eq!(inside.join("r/x").metadata().unwrap().uid(), 0);
            assert_eq!(ino(&inside.join("m/x")) == ino(&inside.join("r/x")), !never, "{writer:?}");
        }
    }

    fn the_mode_never_opens_a_file_to_the_users_of_an_inherited_list(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        file(&source.join("file"), 0, 0o660, b"secret");
        tool("setfacl", &["-m", "g::---,u:4343:rw"], &source.join("file"));
        snapshot(&source, &repo);
        let log = fs.join("log");
        let assert_order = |args: Vec<&OsStr>, stdin: Option<&Path>| {
            let mut strace = Command::new("strace");
            strace.args(TRACE).args(["-z", "-e", "trace=fchmod,fsetxattr,setxattr", "-o"]).arg(&log);
            strace.arg(env!("CARGO_BIN_EXE_pleach")).args(&args).env_remove("PLEACH_REPO");
            if let Some(stdin) = stdin {
                strace.stdin(File::open(stdin).unwrap());
            }
            finish(&mut strace).expect(0);
            let calls = take_trace(&log);
            let list = calls.iter().position(|call| call.contains("posix_acl_access")).expect("it gets its list");
            let opened = calls.iter().position(|call| call.starts_with("fchmod") && call.contains("0660"));
            assert!(opened.is_none_or(|opened| opened > list), "{calls:#?}");
        };
        for writer in WRITERS {
            let (target, inside) = writer.target(fs, &source, &[]);
            tool("setfacl", &["-m", "u:4242:rwx,d:u:4242:rwx"], &inside);
            write(inside.join("file"), b"old");
            assert_order(writer.args(&repo, &source, &target), None);
            assert_equal_trees(&source, &inside);
        }
        let dest = fs.dir("put").join("file");
        finish(Command::new("cp").arg("-a").arg(source.join("file")).arg(&dest)).expect(0);
        tool("setfacl", &["-m", "u:4242:rwx,d:u:4242:rwx"], dest.parent().unwrap());
        write(fs.join("input"), b"new secret");
        assert_order(vec!["put".as_ref(), dest.as_ref()], Some(&fs.join("input")));
        assert_eq!(tools::acl(&dest), tools::acl(&source.join("file")));
    }

    fn private_files_are_never_in_a_directory_that_others_may_enter(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let ann = source.join("ann");
        fs::create_dir(&ann).unwrap();
        for number in 0..50 {
            file(&ann.join(number.to_string()), ANN, 0o644, &bytes(number, 3000));
        }
        chown(&ann, Some(ANN), Some(ANN)).unwrap();
        fs::set_permissions(&ann, fs::Permissions::from_mode(0o700)).unwrap();
        snapshot(&source, &repo);
        for (writer, list) in WRITERS.into_iter().flat_map(|writer| [(writer, false), (writer, true)]) {
            let (target, inside) = writer.target(fs, &source, &["ann"]);
            let there = inside.join("ann");
            fs::read_dir(&there).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
            fs::set_permissions(&there, fs::Permissions::from_mode(0o777)).unwrap();
            if list {
                chown(&there, Some(ANN), Some(ANN)).unwrap();
                tool("setfacl", &["-m", "g::---,o::---,u:4242:rwx,d:u:4242:rwx"], &there);
            }
            let look = || {
                let meta = there.metadata().unwrap();
                let is_open = meta.uid() == MALLORY || meta.mode() & 0o077 != 0;
                let has_files = fs::read_dir(&there).unwrap().next().is_some();
                assert!(!has_files || !is_open, "{writer:?}: {:o} of {}", meta.mode(), meta.uid());
                has_files
            };
            let spy = Spy(look, AtomicU64::new(0));
            match writer {
                Writer::Restore => {
                    let options = restore::Options { target: target.clone(), ..restore::Options::default() };
                    assert_eq!(restore::restore(&repo, "latest", &[], &options, &spy).unwrap().errors, 0);
                }
                Writer::Copy => {
                    let into = copy_tree::Placement::Name;
                    let options = copy_tree::Options { into, ..copy_tree::Options::default() };
                    let sources = std::slice::from_ref(&source);
                    assert_eq!(copy_tree::copy(sources, &target, &options, &spy).unwrap().errors, 0);
                }
            }
            assert!(spy.1.into_inner() > 0, "it was looked at while files were there");
            assert_equal_trees(&source, &inside);
        }
    }

    fn a_temporary_name_gives_nobody_the_directories_of_root(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("f"), b"hi");
        snapshot(&source, &repo);
        let boot: String = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().replace('-', "");
        for command in ["restore", "copy", "put"] {
            let writer = if command == "restore" { Writer::Restore } else { Writer::Copy };
            let (target, inside) = writer.target(fs, &source, &[]);
            let audit = inside.join(format!(".pleach-{command}.{}.0000000000000000", &boot[..10]));
            fs::create_dir(&audit).unwrap();
            fs::set_permissions(&audit, fs::Permissions::from_mode(0o700)).unwrap();
            write(audit.join("log"), b"precious");
            match command {
                "put" => {
                    let dest = inside.join("f");
                    let mut put = command_of_put(&dest);
                    finish(put.stdin(File::open(source.join("f")).unwrap())).expect(0);
                }
                _ => _ = pleach(writer.args(&repo, &source, &target)).expect(0),
            }
            assert_eq!(fs::read(audit.join("log")).unwrap(), b"precious", "{command}");
            fs::remove_dir_all(&audit).unwrap();
        }
    }
}

fn command_of_put(dest: &Path) -> Command {
    let mut put = Command::new(env!("CARGO_BIN_EXE_pleach"));
    put.arg("put").arg(dest).env_remove("PLEACH_REPO");
    put
}
