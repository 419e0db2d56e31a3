//! What changes in a source while it is read, at the moment that hurts: after an entry was looked at, before it is opened.

use crate::harness::{Filesystem, bytes, inside, published, write};
use crate::on_filesystems;
use pleach::error::Error;
use pleach::monitor::Monitor;
use pleach::snapshot::create::{self, Options, Stats};
use rustix::fs::{FileType, Mode};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

/// Does something once, when the engine asks whether it should stop: between looking at entries and opening them.
struct Meddler<F> {
    once: Once,
    meddle: F,
    problems: Mutex<Vec<String>>,
}

impl<F: Fn() + Sync> Monitor for Meddler<F> {
    fn problem(&self, error: &Error) {
        self.problems.lock().unwrap().push(error.to_string());
    }

    fn is_cancelled(&self) -> bool {
        self.once.call_once(&self.meddle);
        false
    }
}

/// Takes a snapshot of a directory with one file, which `meddle` does something to meanwhile.
fn meanwhile(fs: &Filesystem, meddle: impl Fn(&Path) + Sync) -> (Stats, Vec<String>, PathBuf) {
    let source = fs.dir("source");
    let file = source.join("file");
    write(&file, &bytes(1, 100_000));
    let meddle = || meddle(&file);
    let monitor = Meddler { once: Once::new(), meddle, problems: Mutex::default() };
    let repo = fs.join("repo");
    let stats = create::create(std::slice::from_ref(&source), &repo, &Options::default(), &monitor).unwrap();
    let [name] = published(&repo).try_into().expect("one snapshot");
    (stats, monitor.problems.into_inner().unwrap(), inside(&repo, &name, &source).join("file"))
}

fn replaced(fs: &Filesystem, make: impl Fn(&Path) + Sync) {
    let (stats, problems, kept) = meanwhile(fs, |file| {
        fs::remove_file(file).unwrap();
        make(file);
    });
    assert_eq!((stats.files, stats.errors), (0, 1), "{problems:?}");
    assert!(problems[0].contains("became something else"), "{problems:?}");
    assert!(fs::symlink_metadata(kept).is_err());
}

on_filesystems! {
    fn a_file_that_became_a_pipe_is_told_and_never_opened_for_long(fs: &Filesystem) {
        replaced(fs, |path| {
            rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
        });
    }

    fn a_file_that_became_a_link_is_told_and_not_followed(fs: &Filesystem) {
        let elsewhere = fs.join("secret");
        write(&elsewhere, b"secret");
        replaced(fs, |path| symlink(&elsewhere, path).unwrap());
    }

    fn a_file_that_became_a_directory_is_told(fs: &Filesystem) {
        replaced(fs, |path| fs::create_dir(path).unwrap());
    }

    fn a_file_that_became_a_socket_is_told(fs: &Filesystem) {
        replaced(fs, |path| {
            rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Socket, Mode::RUSR, 0).unwrap();
        });
    }

    fn a_file_that_was_deleted_is_no_error(fs: &Filesystem) {
        let (stats, problems, _) = meanwhile(fs, |file| fs::remove_file(file).unwrap());
        assert_eq!((stats.files, stats.errors), (0, 0), "{problems:?}");
    }

    fn a_file_that_was_replaced_is_taken_as_it_is_now(fs: &Filesystem) {
        let (stats, problems, kept) = meanwhile(fs, |file| {
            fs::remove_file(file).unwrap();
            write(file, &bytes(2, 50_000));
        });
        assert_eq!((stats.files, stats.errors), (1, 0), "{problems:?}");
        assert_eq!(fs::read(kept).unwrap(), bytes(2, 50_000));
    }

    fn a_file_that_grows_is_taken_whole(fs: &Filesystem) {
        let (stats, problems, kept) = meanwhile(fs, |file| {
            let both = [bytes(1, 100_000), bytes(3, 1000)].concat();
            write(file, &both);
        });
        assert_eq!((stats.files, stats.errors), (1, 0), "{problems:?}");
        assert_eq!(fs::read(kept).unwrap(), [bytes(1, 100_000), bytes(3, 1000)].concat());
    }
}
