//! Changes in a source while it is read, at the critical moment: after an entry was examined, and before it is opened.

use crate::harness::{Filesystem, bytes, inside, number, published, settle, snapshot, write};
use crate::on_filesystems;
use pleach::error::Error;
use pleach::monitor::{Monitor, Silent};
use pleach::snapshot::create::{self, Options, Stats};
use pleach::snapshot::restore;
use pleach::testing::manifest::{FileBody, Item, Reader};
use rustix::fs::{FileType, Mode};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::thread;
use std::time::Duration;

/// Interferes once, when the engine asks whether it should stop: between examining entries and opening them.
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

/// Panics once, in the middle of the walk.
struct PanicsOnce(AtomicUsize);

impl Monitor for PanicsOnce {
    fn is_cancelled(&self) -> bool {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) != 100, "on purpose");
        false
    }
}

/// Takes a snapshot of a directory with one file, which `meddle` changes meanwhile.
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
    [xfs] fn a_monitor_that_panics_ends_the_walk_of_all_threads(fs: &Filesystem) {
        let source = fs.dir("source");
        for dir in 0..40 {
            let dir = fs.dir(source.join(dir.to_string()));
            (0..40).for_each(|file| write(dir.join(file.to_string()), b"content"));
        }
        let monitor = PanicsOnce(AtomicUsize::new(0));
        let options = Options { threads: Some(4), ..Options::default() };
        let (source, repo) = (source, fs.join("repo"));
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let run = || create::create(&[source], &repo, &options, &monitor).is_ok();
            let _ = sender.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        });
        let has_panicked = receiver.recv_timeout(Duration::from_secs(120)).expect("no thread waits for ever");
        assert!(has_panicked, "the panic reaches the caller");
    }

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

/// Appends to a file each time the engine asks whether it should stop: more often than anybody reads it.
struct Restless<'a> {
    file: &'a Path,
    appended: AtomicUsize,
    problems: Mutex<Vec<String>>,
}

impl Monitor for Restless<'_> {
    fn problem(&self, error: &Error) {
        self.problems.lock().unwrap().push(error.to_string());
    }

    fn is_cancelled(&self) -> bool {
        let mut file = File::options().append(true).open(self.file).unwrap();
        file.write_all(b"once more").unwrap();
        // Timestamps have ticks, and a change is only visible if the time differs.
        thread::sleep(Duration::from_millis(10));
        self.appended.fetch_add(1, Ordering::Relaxed);
        false
    }
}

/// Takes a snapshot of a file that changes all the time. Returns its stats, problems, record and copied content.
fn restless(fs: &Filesystem, source: &Path) -> (Stats, Vec<String>, FileBody, Vec<u8>) {
    let file = source.join("file");
    write(&file, &bytes(1, 100_000));
    let monitor = Restless { file: &file, appended: AtomicUsize::new(0), problems: Mutex::default() };
    let repo = fs.join("repo");
    let stats = create::create(&[source.to_path_buf()], &repo, &Options::default(), &monitor).unwrap();
    assert!(monitor.appended.into_inner() < 20, "it gives up some time");
    let [name] = published(&repo).try_into().expect("one snapshot");
    let reader = Reader::open(&repo.join(".pleach/manifests").join(&name)).unwrap();
    let record = reader.items().find_map(|item| match item.unwrap() {
        Item::Entry(entry) => entry.file().cloned(),
        Item::Directory(_) => None,
    });
    let kept = fs::read(inside(&repo, &name, source).join("file")).unwrap();
    // The record matches the copy, so it can be restored.
    let record = record.expect("it was kept");
    assert_eq!((record.size, record.hash), (kept.len() as u64, Some(*blake3::hash(&kept).as_bytes())));
    let target = restore::Options { target: fs.join("target"), ..restore::Options::default() };
    assert_eq!(restore::restore(&repo, &name, &[], &target, &Silent).unwrap().errors, 0);
    // The next run copies it again.
    settle();
    let again = snapshot(source, &repo);
    assert_eq!(number(&again, "unchanged_files"), 0, "{again}");
    (stats, monitor.problems.into_inner().unwrap(), record, kept)
}

fn expect_marked((stats, problems, record, kept): (Stats, Vec<String>, FileBody, Vec<u8>)) {
    assert_eq!((stats.files, stats.errors), (1, 1), "{problems:?}");
    assert!(problems[0].contains("it changed while it was read"), "{problems:?}");
    assert!(record.changed && kept.starts_with(&bytes(1, 100_000)));
    assert!(stats.read_bytes >= 300_000, "it was read three times: {stats:?}");
}

on_filesystems! {
    [ext4] fn a_file_that_changes_each_time_it_is_read_is_kept_and_marked(fs: &Filesystem) {
        expect_marked(restless(fs, &fs.dir("source")));
    }

    [xfs, btrfs] fn a_file_elsewhere_that_changes_each_time_it_is_read_is_kept_and_marked(fs: &Filesystem) {
        let other = fs.elsewhere();
        expect_marked(restless(fs, &other.dir("source")));
    }

    [xfs, btrfs] fn a_file_that_changes_while_its_clone_is_hashed_is_kept_as_of_one_moment(fs: &Filesystem) {
        let (stats, problems, record, kept) = restless(fs, &fs.dir("source"));
        assert_eq!((stats.files, stats.errors), (1, 0), "{problems:?}");
        assert!(!record.changed && kept.starts_with(&bytes(1, 100_000)));
    }
}
