//! Many small files at once, through a ring.

use super::*;
use crate::on_filesystems;
use pleach::testing::copy::small_files::{FileError, Files, Opened, Wanted, files};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;

/// The result for each file. Its copy has the same name in another directory.
struct Results<'a> {
    names: &'a [String],
    copies: &'a Path,
    opened: BTreeMap<usize, u64>,
    copied: BTreeMap<usize, Result<Copied, CopyError>>,
    failed: BTreeMap<usize, FileError>,
}

impl<'a> Results<'a> {
    fn of(names: &'a [String], copies: &'a Path) -> Self {
        let (opened, copied, failed) = Default::default();
        Results { names, copies, opened, copied, failed }
    }
}

impl Files for Results<'_> {
    type Copy = File;

    fn opened(&mut self, number: usize, source: Opened<'_>) -> Option<File> {
        assert_eq!(self.opened.insert(number, source.status.size), None, "{number} is opened once");
        File::create_new(self.copies.join(&self.names[number])).ok()
    }

    fn copied(&mut self, number: usize, _: Opened<'_>, copy: File, copied: Result<Copied, CopyError>) {
        assert_eq!(self.copied.insert(number, copied), None, "{number} is copied once");
        let there = fs::metadata(self.copies.join(&self.names[number])).expect("the copy is there");
        assert_eq!(
            Status::of(copy).expect("the copy has a status").ino,
            there.ino(),
            "{number} comes back as it was made"
        );
    }

    fn failed(&mut self, number: usize, error: FileError) {
        assert_eq!(self.failed.insert(number, error), None, "{number} fails once");
    }
}

fn wanted<'a>(dir: BorrowedFd<'a>, names: &'a [String], size: u64) -> Vec<Wanted<'a>> {
    names.iter().map(|name| Wanted { dir, name: name.as_bytes(), size }).collect()
}

on_filesystems! {
    fn hundreds_of_files_come_over_whole(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        let sizes = (0..300).map(|n| match n % 10 {
            0 => n * 7,
            1 => 128 << 10,
            2 => (128 << 10) + 1,
            3 => 300_000 + n,
            4 => 0,
            _ => 4096 + n - 5,
        });
        let mut names = Vec::new();
        for (number, size) in sizes.enumerate() {
            names.push(format!("file-{number}"));
            write(source.join(&names[number]), &bytes(number as u64, size));
        }
        names.push("large".into());
        write(source.join("large"), &bytes(1000, 3 * MIB as usize + 77));
        names.push("sparse".into());
        let sparse = File::create(source.join("sparse")).expect("a file can be made");
        sparse.set_len(MIB).expect("a file can be all hole");
        sparse.write_all_at(&bytes(1, 10_000), 500_000).expect("a file can be written");
        sparse.sync_all().expect("a file can be synced");
        let from = File::open(&source).expect("it opens");
        let request = Request { engine: Some(Engine::Uring), hashed: true };
        // Also when files are larger than expected, so that the buffers are shorter than the files.
        for size in [4096, MIB] {
            let copies = fs.dir(size.to_string());
            let (ladder, mut results) = (Strategy::new(), Results::of(&names, &copies));
            let listening = Listening::default();
            let wanted = wanted(from.as_fd(), &names, size);
            files(&wanted, &mut results, &ladder, &request, &listening).expect("there are rings");
            assert_eq!(
                (results.opened.len(), results.copied.len(), results.failed.len()),
                (names.len(), names.len(), 0)
            );
            for (number, name) in names.iter().enumerate() {
                let content = fs::read(source.join(name)).expect("it can be read");
                let copied = results.copied[&number].expect("it is copied");
                assert_same(&source.join(name), &copies.join(name), &copied, name);
                assert_eq!(copied.hash, Some(*blake3::hash(&content).as_bytes()), "{name}");
                assert_eq!(copied.size(), content.len() as u64, "{name}");
            }
            let all: u64 = results.opened.values().sum();
            assert_eq!(*listening.bytes.lock().expect("nobody panicked"), all, "every byte is reported");
        }
    }

    fn what_cannot_be_copied_is_told_and_stops_nothing(fs: &Filesystem) {
        let (source, copies) = (fs.dir("source"), fs.dir("copies"));
        let names = ["first", "missing", "link", "pipe", "there already", "last"].map(String::from);
        for name in ["first", "there already", "last"] {
            write(source.join(name), &bytes(1, 5000));
        }
        write(copies.join("there already"), b"mine");
        std::os::unix::fs::symlink("first", source.join("link")).expect("a link can be made");
        tools::tool("mkfifo", &[], &source.join("pipe"));
        let from = File::open(&source).expect("it opens");
        let mut results = Results::of(&names, &copies);
        let request = Request::default();
        files(&wanted(from.as_fd(), &names, 5000), &mut results, &Strategy::new(), &request, &Silent).expect("rings");
        assert_eq!(results.copied.keys().copied().collect::<Vec<_>>(), [0, 5]);
        assert_eq!(results.failed[&1], FileError::Open(Errno::NOENT));
        assert_eq!(results.failed[&2], FileError::Open(Errno::LOOP));
        assert!(
            matches!(results.failed[&3], FileError::NotRegular(status) if status.file_type() == FileType::Fifo),
            "{:?}",
            results.failed[&3]
        );
        // Nothing was made for this file, and nothing more is reported about it.
        assert!(results.opened.contains_key(&4) && !results.failed.contains_key(&4));
        assert_eq!(fs::read(copies.join("there already")).expect("it can be read"), b"mine");
        assert_eq!(names_of(&copies), ["first", "last", "there already"]);
    }

    fn a_run_that_is_to_stop_begins_no_more_files(fs: &Filesystem) {
        struct Stop;
        impl Monitor for Stop {
            fn is_cancelled(&self) -> bool {
                true
            }
        }
        let (source, copies) = (fs.dir("source"), fs.dir("copies"));
        write(source.join("file"), b"content");
        let from = File::open(&source).expect("it opens");
        let names = ["file".to_string()];
        let mut results = Results::of(&names, &copies);
        files(&wanted(from.as_fd(), &names, 7), &mut results, &Strategy::new(), &Request::default(), &Stop)
            .expect("rings");
        assert_eq!(results.opened.len(), 0);
        assert_eq!(names_of(&copies), [""; 0]);
    }
}

fn names_of(dir: &Path) -> Vec<String> {
    names(dir)
}
