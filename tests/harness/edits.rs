//! Random changes of a tree: every kind that programs and the filesystem itself make.

use super::random::Random;
use super::*;
use rustix::fs::{CWD, FallocateFlags, RenameFlags, XattrFlags, fallocate, renameat_with, setxattr};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tree that changes.
pub(crate) struct Tree {
    pub(crate) top: PathBuf,
    kind: Kind,
    pub(crate) random: Random,
    /// The changes so far, for the report of a failure.
    pub(crate) done: Vec<String>,
    next: u64,
}

fn btrfs(args: &[&str], path: &Path) {
    let run = finish(Command::new("btrfs").args(args).arg(path));
    assert_eq!(run.status, 0, "btrfs {args:?} {}: {}", path.display(), run.stderr);
}

impl Tree {
    /// Makes a tree with some directories, files and hard links. On Btrfs it is a subvolume with another one in it.
    pub(crate) fn new(kind: Kind, top: PathBuf, random: Random) -> Tree {
        let mut tree = Tree { top, kind, random, done: Vec::new(), next: 0 };
        tree.make_part(&tree.top);
        for directory in ["a", "a/b", "a/b/c", "d", "d/e", "f"] {
            fs::create_dir(tree.top.join(directory)).unwrap();
        }
        tree.make_part(&tree.top.join("sub"));
        for _ in 0..40 {
            tree.create();
        }
        for _ in 0..6 {
            tree.link();
        }
        tree.done.clear();
        tree
    }

    /// Makes a subvolume, or a directory on other filesystems.
    fn make_part(&self, path: &Path) {
        match self.kind {
            Kind::Btrfs => btrfs(&["-q", "subvolume", "create"], path),
            _ => fs::create_dir(path).unwrap(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    fn name(&mut self) -> String {
        self.next += 1;
        format!("n{}", self.next)
    }

    /// All entries below the top, by a condition.
    fn all(&self, is_wanted: impl Fn(&fs::Metadata) -> bool) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut waiting = vec![self.top.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
                let metadata = entry.metadata().unwrap();
                if is_wanted(&metadata) {
                    found.push(entry.path());
                }
                if metadata.is_dir() {
                    waiting.push(entry.path());
                }
            }
        }
        found.sort();
        found
    }

    fn file(&mut self) -> Option<PathBuf> {
        let files = self.all(|metadata| metadata.is_file());
        (!files.is_empty()).then(|| files[self.below(files.len())].clone())
    }

    fn directory(&mut self) -> PathBuf {
        // Nothing can be made in the place of a subvolume in the snapshot of another one.
        let mut directories = self.all(|metadata| metadata.is_dir() && metadata.ino() != 2);
        directories.push(self.top.clone());
        directories[self.below(directories.len())].clone()
    }

    fn content(&mut self) -> Vec<u8> {
        let length = [0, 10, 300, 5000, 40_000, 300_000][self.below(6)];
        self.next += 1;
        bytes(self.next, length)
    }

    fn create(&mut self) {
        let (directory, name, content) = (self.directory(), self.name(), self.content());
        write(directory.join(name), &content);
    }

    fn link(&mut self) {
        let (Some(file), directory, name) = (self.file(), self.directory(), self.name()) else { return };
        // Hard links do not leave a subvolume.
        let _ = fs::hard_link(file, directory.join(name));
    }

    /// Makes one change.
    pub(crate) fn change(&mut self) {
        let kind = self.below(24);
        let what = match kind {
            0 | 1 => {
                self.create();
                "create"
            }
            2 | 3 => {
                if let Some(file) = self.file() {
                    let length = fs::metadata(&file).unwrap().len();
                    let (at, content) = (self.below(length as usize + 1) as u64, self.content());
                    overwrite(&file, at, &content);
                }
                "overwrite"
            }
            4 => {
                if let Some(file) = self.file() {
                    let length = self.below(50_000) as u64;
                    File::options().write(true).open(file).unwrap().set_len(length).unwrap();
                }
                "truncate"
            }
            5 => {
                if let Some(file) = self.file() {
                    let file = File::options().write(true).open(file).unwrap();
                    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    fallocate(file, flags, 4096 * self.below(5) as u64, 4096 * (1 + self.below(5) as u64)).unwrap();
                }
                "punch a hole"
            }
            6 => {
                if let Some(file) = self.file() {
                    let (directory, name) = (self.directory(), self.name());
                    // Not into another subvolume: that is not a rename.
                    let _ = fs::rename(file, directory.join(name));
                }
                "rename a file"
            }
            7 | 8 => {
                let (from, to, name) = (self.directory(), self.directory(), self.name());
                if from != self.top && !to.starts_with(&from) {
                    let _ = fs::rename(from, to.join(name));
                }
                "rename a directory"
            }
            9 => {
                let (one, other) = (self.directory(), self.directory());
                if !one.starts_with(&other) && !other.starts_with(&one) {
                    let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
                }
                "exchange directories"
            }
            10 | 11 => {
                self.link();
                "link"
            }
            12 => {
                if let Some(file) = self.file() {
                    fs::remove_file(file).unwrap();
                }
                "remove a file"
            }
            13 => {
                let directory = self.directory();
                if directory != self.top && self.below(3) == 0 {
                    // A subvolume cannot be removed like this.
                    let _ = fs::remove_dir_all(directory);
                }
                "remove a directory"
            }
            14 => {
                if let Some(file) = self.file() {
                    fs::remove_file(&file).unwrap();
                    match self.below(3) {
                        0 => symlink("somewhere", &file).unwrap(),
                        1 => {
                            fs::create_dir(&file).unwrap();
                            write(file.join("inside"), b"inside");
                        }
                        _ => drop(tools::tool("mkfifo", &[], &file)),
                    }
                }
                "change a type"
            }
            15 => {
                if let Some(file) = self.file() {
                    match self.below(3) {
                        0 => {
                            fs::set_permissions(file, fs::Permissions::from_mode(0o600 + self.below(8) as u32)).unwrap()
                        }
                        1 => chown(file, Some(self.below(9) as u32), None).unwrap(),
                        _ => setxattr(file, "user.a", &bytes(self.next, 20), XattrFlags::empty()).unwrap(),
                    }
                }
                "change metadata"
            }
            16 => {
                let directory = self.directory();
                let mode = 0o700 + self.below(0o56) as u32;
                fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
                "change a directory's mode"
            }
            17 => {
                let path = self.directory().join(self.name());
                self.make_part(&path);
                write(path.join("of its own"), &bytes(self.next, 7000));
                "create a subvolume"
            }
            18 | 19 if self.kind != Kind::Btrfs => {
                let directory = self.directory();
                let beside = self.all(|_| true);
                let beside: Vec<_> = beside.into_iter().filter(|path| path.parent() == Some(&directory)).collect();
                if let [one, .., other] = &beside[..] {
                    // On XFS this changes the directory, but not the two inodes.
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                }
                "exchange two names in a directory"
            }
            21 if self.kind != Kind::Btrfs => {
                if let Some(file) = self.file() {
                    // The new file gets the inode number of the old one.
                    fs::remove_file(&file).unwrap();
                    write(&file, &self.content());
                }
                "make a file anew"
            }
            18 => {
                let (name, path) = (self.name(), self.top.join("sub"));
                if path.exists() {
                    // Another directory may have been exchanged for it.
                    let mut snapshot = Command::new("btrfs");
                    snapshot.args(["-q", "subvolume", "snapshot"]).arg(&path).arg(self.top.join(name));
                    let _ = finish(&mut snapshot);
                }
                "snapshot a subvolume"
            }
            19 => {
                let subvolumes: Vec<_> = self.all(fs::Metadata::is_dir);
                let subvolumes: Vec<_> = subvolumes.into_iter().filter(|path| tools::is_subvolume(path)).collect();
                if !subvolumes.is_empty() && self.below(2) == 0 {
                    let path = &subvolumes[self.below(subvolumes.len())];
                    // One with another in it stays.
                    let _ = finish(Command::new("btrfs").args(["-q", "subvolume", "delete"]).arg(path));
                }
                "delete a subvolume"
            }
            20 => {
                if let Some(file) = self.file() {
                    let copy = self.directory().join(self.name());
                    match self.kind {
                        Kind::Ext4 => drop(fs::copy(&file, &copy).unwrap()),
                        _ => clone(&file, &copy),
                    }
                }
                "clone or copy"
            }
            21 => {
                let _ = finish(Command::new("btrfs").args(["filesystem", "defragment", "-r"]).arg(&self.top));
                "defragment"
            }
            22 => {
                // Reading changes access times, in the same transactions as real changes.
                tools::checksums(&self.top);
                "read"
            }
            _ => {
                if let Some(file) = self.file() {
                    tree::set_mtime(&file, 1_000_000_000 + self.next as i64, 0);
                }
                "set a time"
            }
        };
        self.done.push(what.into());
    }
}
