//! New directories that have a temporary name while their small files are copied.

use super::{assert_nothing_unfinished, copy, run};
use crate::harness::tools::{assert_equal_trees, files};
use crate::harness::*;
use crate::on_filesystems;
use pleach::copy_tree::{self, Options, Stats};
use pleach::error::Error;
use pleach::monitor::{Amount, Monitor};
use pleach::testing::copy::Engine;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory with small files of several permissions, an additional name, a link, and a large file.
fn fill(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    tree::crowded(dir, 40);
    for (number, permissions) in [0o400, 0o666, 0o750, 0o4755].into_iter().enumerate() {
        let file = dir.join(format!("file-{number:06}"));
        fs::set_permissions(file, fs::Permissions::from_mode(permissions)).unwrap();
    }
    fs::hard_link(dir.join("file-000020"), dir.join("another")).unwrap();
    std::os::unix::fs::symlink("file-000001", dir.join("link")).unwrap();
    write(dir.join("large"), &bytes(5, 2 << 20));
}

/// The directories below `dir` that have a temporary name.
pub(super) fn staged(dir: &Path) -> Vec<PathBuf> {
    let is_temporary =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".pleach-copy."));
    tools::paths(dir).into_iter().map(|path| dir.join(path)).filter(|path| path.is_dir()).filter(is_temporary).collect()
}

/// Calls a function when this many entries were entered or copied, and keeps the reported problems.
struct Meddler<F> {
    left: AtomicUsize,
    meddle: F,
    problems: Mutex<Vec<String>>,
}

impl<F: Fn() + Sync> Monitor for Meddler<F> {
    fn problem(&self, error: &Error) {
        self.problems.lock().unwrap().push(error.to_string());
    }

    fn advance(&self, _: Amount) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            (self.meddle)();
        }
    }
}

/// Copies `source` to `copied`. `meddle` interferes when this many entries were entered or copied. Returns the stats
/// and the reported problems.
fn copy_while(source: &Path, copied: &Path, after: usize, meddle: impl Fn() + Sync) -> (Stats, Vec<String>) {
    let monitor = Meddler { left: AtomicUsize::new(after), meddle, problems: Mutex::default() };
    let options = Options { engine: Some(Engine::Buffered), threads: Some(1), ..Options::default() };
    let stats = copy_tree::copy(&[source.to_path_buf()], copied, &options, &monitor).unwrap();
    (stats, monitor.problems.into_inner().unwrap())
}

on_filesystems! {
    [xfs, btrfs] fn small_files_of_a_new_directory_are_neither_linked_nor_given_their_permissions(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        for number in 0..3 {
            let dir = source.join(format!("{number}"));
            fs::create_dir(&dir).unwrap();
            tree::crowded(&dir, 40);
        }
        let args = ["copy".as_ref(), source.as_ref(), copied.as_ref()];
        let calls = tools::traced_calls("openat,linkat,fchmod,renameat2", &args, &fs.join("log"));
        let count = |call: &str| calls.iter().filter(|line| line.contains(call)).count();
        assert_eq!((count("O_TMPFILE"), count("linkat("), count("renameat2(")), (0, 0, 3), "{calls:#?}");
        // Each directory gets its permissions at its end, and each of the three is marked before.
        assert_eq!(count("fchmod("), 4 + 3, "{calls:#?}");
        assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(fs.path());
    }

    fn all_entries_of_new_directories_arrive(fs: &Filesystem) {
        let other = fs.elsewhere();
        for source in [other.dir("source"), fs.dir("source")] {
            for inner in ["a", "b/c", "b/d"] {
                fill(&source.join(inner));
            }
            fs::hard_link(source.join("a/file-000007"), source.join("b/c/of-another")).unwrap();
            for engine in ["auto", "buffered", "uring"] {
                let copied = fs.join("copied");
                run([OsStr::new("--engine"), engine.as_ref(), source.as_ref(), copied.as_ref()]).expect(0);
                assert_equal_trees(&source, &copied);
                assert_nothing_unfinished(fs.path());
                fs::remove_dir_all(copied).unwrap();
            }
        }
    }

    [xfs, btrfs] fn a_killed_run_leaves_no_half_file_under_its_name_and_the_next_one_clears_up(fs: &Filesystem) {
        let (other, into) = (fs.elsewhere(), fs.dir("into"));
        let source = other.join("source");
        fill(&source.join("a"));
        fill(&source.join("b"));
        let args = ["copy", "-j1", "--engine", "buffered"].map(OsStr::new).into_iter();
        let args: Vec<_> = args.chain([source.as_os_str(), into.as_os_str()]).collect();
        tools::killed_at("pwrite64", 5, &args);
        let left = staged(&into);
        assert!(left.len() == 1 && files(&left[0]).len() == 5, "{left:?}");
        assert_eq!(files(&into).len(), 5, "no file has its place");
        // Somebody else's directory stays, whatever its name.
        let foreign = PathBuf::from(format!("{}0", left[0].display()));
        fs::create_dir_all(foreign.join("inner")).unwrap();
        settle();
        copy(&source, &into);
        assert!(!left[0].exists() && foreign.join("inner").exists(), "{left:?}");
        fs::remove_dir_all(foreign).unwrap();
        run([OsStr::new("-T"), source.as_ref(), into.join("source").as_ref()]).expect(0);
        assert_equal_trees(&source, &into.join("source"));
    }

    [xfs, btrfs] fn an_interrupted_run_keeps_the_files_that_it_completed(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        tree::crowded(&source, 300);
        let args = ["copy", "-j1", "--json", "--engine", "buffered", "-T"].map(OsStr::new).into_iter();
        let args = args.chain([source.as_os_str(), copied.as_os_str()]);
        let run = tools::interrupted_at("pwrite64", 100, args).expect(130);
        let kept = files(&copied);
        assert!((64..300).contains(&kept.len()), "{}", kept.len());
        assert_eq!(number(&run.summary(), "copied_entries"), kept.len() as u64 + 1);
        for file in kept {
            assert_eq!(fs::read(&file).unwrap(), fs::read(source.join(file.file_name().unwrap())).unwrap());
        }
        assert_nothing_unfinished(fs.path());
        super::run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
        assert_equal_trees(&source, &copied);
    }

    fn a_directory_that_somebody_else_creates_meanwhile_is_entered(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.join("source");
        fill(&source);
        let file = |dir: &Path, number: usize| dir.join(format!("file-{number:06}"));
        let meddle = || {
            if !copied.exists() {
                fs::create_dir(&copied).unwrap();
            }
            let _ = fs::remove_file(file(&copied, 39));
            write(file(&copied, 39), b"of somebody else");
            write(copied.join("more"), b"more");
        };
        let (stats, problems) = copy_while(&source, &copied, 1, meddle);
        assert_eq!((stats.errors, problems.len()), (1, 1), "{problems:?}");
        assert!(problems[0].contains("file-000039"), "{problems:?}");
        assert_eq!(stats.files, files(&source).len() as u64 - 1);
        assert_eq!(fs::read(file(&copied, 39)).unwrap(), b"of somebody else");
        fs::remove_file(file(&copied, 39)).unwrap();
        fs::remove_file(copied.join("more")).unwrap();
        run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
        assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(fs.path());
    }

    [xfs, btrfs] fn files_that_another_run_made_before_this_one_began_are_compared(fs: &Filesystem) {
        let (other, copied, theirs) = (fs.elsewhere(), fs.join("copied"), fs.dir("theirs"));
        let source = other.dir("source");
        tree::crowded(&source, 40);
        // They are complete, and do not have their times yet.
        for file in files(&source) {
            write(theirs.join(file.file_name().unwrap()), &fs::read(&file).unwrap());
        }
        settle();
        let (stats, problems) = copy_while(&source, &copied, 1, || fs::rename(&theirs, &copied).unwrap());
        assert_eq!((stats.errors, problems), (0, Vec::new()));
        assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(fs.path());
    }

    [xfs, btrfs] fn a_file_that_somebody_else_creates_in_place_of_a_directory_is_kept(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.dir("copied"));
        let source = other.join("source");
        fill(&source.join("a"));
        fill(&source.join("b"));
        let taken = copied.join("source/a");
        let (stats, problems) = copy_while(&source, &copied, 2, || write(&taken, b"a file"));
        assert_eq!((stats.errors, problems.len()), (1, 1), "{problems:?}");
        assert!(problems[0].contains("source/a") && problems[0].contains("something else"), "{problems:?}");
        assert_eq!(fs::read(&taken).unwrap(), b"a file");
        assert_equal_trees(&source.join("b"), &copied.join("source/b"));
        assert_nothing_unfinished(fs.path());
    }
}
