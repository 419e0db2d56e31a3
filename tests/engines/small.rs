//! Many small files at once, through a ring.

use super::*;
use crate::on_filesystems;
use pleach::copy::engines::uring::{FileError, Files, Made, Wanted, files};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;

/// What became of each file.
#[derive(Default)]
struct Results {
    opened: BTreeMap<usize, u64>,
    copied: BTreeMap<usize, Result<Copied, CopyError>>,
    failed: BTreeMap<usize, FileError>,
    /// Left as it is made.
    left: Option<usize>,
}

impl Files for Results {
    fn opened(&mut self, number: usize, made: &Made<'_>) -> bool {
        let empty = Status::of(made.destination).expect("the copy has a status").size;
        assert_eq!(empty, 0, "nothing is written yet");
        assert_eq!(self.opened.insert(number, made.status.size), None, "{number} is opened once");
        self.left != Some(number)
    }

    fn copied(&mut self, number: usize, _: &Made<'_>, copied: Result<Copied, CopyError>) {
        assert_eq!(self.copied.insert(number, copied), None, "{number} is copied once");
    }

    fn failed(&mut self, number: usize, error: FileError) {
        assert_eq!(self.failed.insert(number, error), None, "{number} fails once");
    }
}

fn wanted<'a>(from: BorrowedFd<'a>, to: BorrowedFd<'a>, names: &'a [String]) -> Vec<Wanted<'a>> {
    let wanted = |name: &'a String| Wanted {
        source_dir: from,
        source: name.as_bytes(),
        destination_dir: to,
        destination: name.as_bytes(),
    };
    names.iter().map(wanted).collect()
}

on_filesystems! {
    fn hundreds_of_files_come_over_whole(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, copies) = (other.dir("source"), fs.dir("copies"));
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
        let (from, to) = (File::open(&source).expect("it opens"), File::open(&copies).expect("it opens"));
        let request = Request { engine: Some(Engine::Uring), hashed: true };
        let (ladder, mut results) = (Ladder::new(), Results::default());
        let wanted = wanted(from.as_fd(), to.as_fd(), &names);
        let listening = Listening::default();
        files(&wanted, &mut results, &ladder, &request, &listening).expect("there are rings");
        assert_eq!((results.opened.len(), results.copied.len(), results.failed.len()), (names.len(), names.len(), 0));
        for (number, name) in names.iter().enumerate() {
            let content = fs::read(source.join(name)).expect("it can be read");
            let copied = results.copied[&number].expect("it is copied");
            assert_same(&source.join(name), &copies.join(name), &copied, name);
            assert_eq!(copied.hash, Some(*blake3::hash(&content).as_bytes()), "{name}");
            assert_eq!(copied.size(), content.len() as u64, "{name}");
            let mode = fs::metadata(copies.join(name)).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "{name}");
        }
        let all: u64 = results.opened.values().sum();
        assert_eq!(*listening.bytes.lock().expect("nobody panicked"), all, "every byte is told of");
    }

    fn what_cannot_be_copied_is_told_and_stops_nothing(fs: &Filesystem) {
        let (source, copies) = (fs.dir("source"), fs.dir("copies"));
        let names = ["first", "missing", "link", "pipe", "there already", "left", "last"].map(String::from);
        for name in ["first", "there already", "left", "last"] {
            write(source.join(name), &bytes(1, 5000));
        }
        write(copies.join("there already"), b"mine");
        std::os::unix::fs::symlink("first", source.join("link")).expect("a link can be made");
        tools::tool("mkfifo", &[], &source.join("pipe"));
        let (from, to) = (File::open(&source).expect("it opens"), File::open(&copies).expect("it opens"));
        let mut results = Results { left: Some(5), ..Results::default() };
        let request = Request::default();
        files(&wanted(from.as_fd(), to.as_fd(), &names), &mut results, &Ladder::new(), &request, &Silent).expect("rings");
        assert_eq!(results.copied.keys().copied().collect::<Vec<_>>(), [0, 6]);
        assert_eq!(results.failed[&1], FileError::Open(Errno::NOENT));
        assert_eq!(results.failed[&2], FileError::Open(Errno::LOOP));
        assert!(
            matches!(results.failed[&3], FileError::NotRegular(status) if status.file_type() == FileType::Fifo),
            "{:?}",
            results.failed[&3]
        );
        assert_eq!(results.failed[&4], FileError::Create(Errno::EXIST));
        assert_eq!(fs::read(copies.join("there already")).expect("it can be read"), b"mine");
        assert_eq!(fs::read(copies.join("left")).expect("it can be read"), b"");
        assert_eq!(names_of(&copies), ["first", "last", "left", "there already"]);
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
        let (from, to) = (File::open(&source).expect("it opens"), File::open(&copies).expect("it opens"));
        let mut results = Results::default();
        let names = ["file".to_string()];
        files(&wanted(from.as_fd(), to.as_fd(), &names), &mut results, &Ladder::new(), &Request::default(), &Stop)
            .expect("rings");
        assert_eq!(results.opened.len(), 0);
        assert_eq!(names_of(&copies), [""; 0]);
    }
}

fn names_of(dir: &Path) -> Vec<String> {
    names(dir)
}
