//! Changes that others make to a source or a destination while it is copied.

use super::run;
use crate::harness::tools::{assert_equal_trees, inventory, paths};
use crate::harness::{Filesystem, bytes, names, write};
use crate::on_filesystems;
use pleach::copy_tree::{self, Options, Stats};
use pleach::error::Error;
use pleach::monitor::{Amount, Monitor};
use pleach::testing::copy::Engine;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Interferes this many times when bytes were copied, in the middle of a file.
struct Meddler<F> {
    times: AtomicUsize,
    meddle: F,
    problems: Mutex<Vec<String>>,
}

impl<F: Fn() + Sync> Monitor for Meddler<F> {
    fn problem(&self, error: &Error) {
        self.problems.lock().unwrap().push(error.to_string());
    }

    fn advance(&self, done: Amount) {
        let is_due = |times: usize| times.checked_sub(1);
        if done.bytes > 0 && self.times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_due).is_ok() {
            (self.meddle)();
        }
    }
}

/// Copies a directory with one file; `meddle` changes the file this many times, each time after some of it was read.
fn meanwhile(fs: &Filesystem, times: usize, meddle: impl Fn(&Path) + Sync) -> (Stats, Vec<String>, PathBuf) {
    let (source, copied) = (fs.dir("source"), fs.join("copied"));
    let file = source.join("file");
    write(&file, &bytes(1, 3 << 20));
    let meddle = || meddle(&file);
    let monitor = Meddler { times: AtomicUsize::new(times), meddle, problems: Mutex::default() };
    let options = Options { engine: Some(Engine::Buffered), threads: Some(1), ..Options::default() };
    let stats = copy_tree::copy(std::slice::from_ref(&source), &copied, &options, &monitor).unwrap();
    assert!(paths(fs.path()).iter().all(|path| !path.to_string_lossy().contains(".pleach-copy.")));
    (stats, monitor.problems.into_inner().unwrap(), copied.join("file"))
}

fn change(file: &Path) {
    // Longer than a tick of the clock that stamps files.
    std::thread::sleep(std::time::Duration::from_millis(15));
    File::options().write(true).open(file).unwrap().write_all_at(&bytes(9, 5000), 100).unwrap();
}

on_filesystems! {
    fn a_file_that_changes_while_it_is_copied_is_copied_again(fs: &Filesystem) {
        let (stats, problems, copied) = meanwhile(fs, 2, change);
        assert_eq!((stats.files, stats.errors), (1, 0), "{problems:?}");
        assert_equal_trees(&fs.join("source"), copied.parent().unwrap());
        assert!(stats.read_bytes > stats.bytes, "it was read again: {stats:?}");
    }

    fn a_file_that_never_rests_is_kept_as_it_was_last_and_told(fs: &Filesystem) {
        let (stats, problems, copied) = meanwhile(fs, usize::MAX, change);
        assert_eq!((stats.files, stats.errors), (1, 1), "{problems:?}");
        let parts = ["it changed while it was read", "source/file"];
        assert!(parts.iter().all(|part| problems[0].contains(part)), "{problems:?}");
        assert_eq!(copied.metadata().unwrap().len(), 3 << 20);
    }

    fn a_file_that_shrinks_while_it_is_copied_is_copied_as_it_is_then(fs: &Filesystem) {
        let (stats, problems, copied) =
            meanwhile(fs, 1, |file| File::options().write(true).open(file).unwrap().set_len(70_000).unwrap());
        assert_eq!((stats.files, stats.bytes, stats.errors), (1, 70_000, 0), "{problems:?}");
        assert_equal_trees(&fs.join("source"), copied.parent().unwrap());
    }

    fn a_file_that_vanishes_while_it_is_copied_is_none(fs: &Filesystem) {
        // Whoever has it open can still read its content, but its status differs: then it counts as gone.
        let (stats, problems, copied) = meanwhile(fs, 1, |file| fs::remove_file(file).unwrap());
        assert_eq!((stats.files, stats.errors), (0, 0), "{problems:?}");
        assert!(!copied.exists());
    }

    fn a_link_in_the_place_of_a_changing_file_is_not_followed(fs: &Filesystem) {
        write(fs.join("secret"), b"secret");
        let secret = fs.join("secret");
        let (stats, problems, copied) = meanwhile(fs, 1, |file| {
            fs::remove_file(file).unwrap();
            symlink(&secret, file).unwrap();
        });
        assert_eq!((stats.files, stats.errors), (0, 1), "{problems:?}");
        assert!(!copied.exists());
    }

    fn what_came_into_its_place_meanwhile_is_not_replaced(fs: &Filesystem) {
        let mine = fs.join("copied/file");
        let (stats, problems, copied) = meanwhile(fs, 1, |_| write(&mine, b"mine"));
        assert_eq!((stats.files, stats.errors), (0, 1), "{problems:?}");
        assert!(problems[0].contains("somebody else meanwhile"), "{problems:?}");
        assert_eq!(fs::read(copied).unwrap(), b"mine");
    }

    [xfs] fn a_copy_of_what_is_mounted_in_itself_ends(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        write(source.join("file"), b"x");
        fs::create_dir(source.join("mounted")).unwrap();
        let mount = |args: &[&Path]| {
            assert!(std::process::Command::new("mount").arg("--bind").args(args).status().unwrap().success())
        };
        mount(&[&into, &source.join("mounted")]);
        let copied = run([&source, &into]);
        let before = inventory(&source);
        let again = run([source.join("mounted").as_path(), source.as_path()]);
        assert_eq!(inventory(&source), before);
        assert!(std::process::Command::new("umount").arg(source.join("mounted")).status().unwrap().success());
        copied.expect(3).saying("into itself");
        again.expect(2);
        assert_eq!(names(&into.join("source")), ["file"]);
    }
}
