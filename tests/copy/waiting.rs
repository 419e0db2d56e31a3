//! New directories that keep their temporary name until the data of their files is on the disk.

use super::staged::staged;
use super::{assert_nothing_unfinished, run};
use crate::harness::tools::{self, assert_equal_trees, files};
use crate::harness::*;
use crate::on_filesystems;
use pleach::copy_tree::{self, Options, Stats};
use pleach::error::Error;
use pleach::monitor::{Amount, Monitor};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Directories with small files only.
fn fill(source: &Path, directories: usize) {
    for number in 0..directories {
        let dir = source.join(format!("dir-{number:03}"));
        fs::create_dir(&dir).unwrap();
        tree::crowded(&dir, 40);
    }
    sync(source);
}

/// Writes a source to the disk, so that the run need not do it, and waits for the next tick.
fn sync(source: &Path) {
    rustix::fs::syncfs(fs::File::open(source).unwrap()).unwrap();
    settle();
}

fn file(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("file-{number:06}"))
}

/// The files below `dir` that are in their place.
fn named(dir: &Path) -> Vec<PathBuf> {
    files(dir).into_iter().filter(|file| !file.to_string_lossy().contains(".pleach-copy.")).collect()
}

/// `pleach copy -T`, below strace with this injection into syncfs(2).
fn copy_with(injection: &str, source: &Path, copied: &Path) -> Run {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=syncfs", "-e", &format!("inject=syncfs:{injection}")]);
    strace.arg(env!("CARGO_BIN_EXE_pleach")).args(["copy", "--json", "-T"]).args([source, copied]);
    finish(strace.env_remove("PLEACH_REPO"))
}

/// Calls a function before the last sync, and keeps the reported problems.
struct BeforeSync<F> {
    meddle: F,
    problems: Mutex<Vec<String>>,
}

impl<F: Fn() + Sync> Monitor for BeforeSync<F> {
    fn phase(&self, name: &str, _: Option<Amount>) {
        if name == "syncing" {
            (self.meddle)();
        }
    }

    fn problem(&self, error: &Error) {
        self.problems.lock().unwrap().push(error.to_string());
    }
}

/// Copies `source` to `copied`. `meddle` interferes when everything waits for the sync. Returns the stats and the
/// reported problems.
fn copy_until_sync(source: &Path, copied: &Path, meddle: impl Fn() + Sync) -> (Stats, Vec<String>) {
    let monitor = BeforeSync { meddle, problems: Mutex::default() };
    let stats = copy_tree::copy(&[source.to_path_buf()], copied, &Options::default(), &monitor).unwrap();
    (stats, monitor.problems.into_inner().unwrap())
}

on_filesystems! {
    [xfs, btrfs] fn files_get_their_times_once_and_their_directory_its_name_after_the_sync(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        fill(&source, 3);
        let args = ["copy".as_ref(), "-T".as_ref(), source.as_ref(), copied.as_ref()];
        let calls = tools::traced_calls("utimensat,renameat2,syncfs", &args, &fs.join("log"));
        let at = |text: &str| calls.iter().position(|call| call.contains(text)).unwrap();
        let last = |text: &str| calls.iter().rposition(|call| call.contains(text)).unwrap();
        let times = |text: &str| {
            calls.iter().filter(|call| call.contains("utimensat(") && call.contains(text)).collect::<Vec<_>>()
        };
        assert_eq!((times("/file-").len(), times("utimensat(").len()), (120, 124), "{calls:#?}");
        assert!(times("/file-").iter().all(|call| call.contains("/.pleach-copy.")), "{calls:#?}");
        assert!(last("/file-") < at("syncfs(") && at("syncfs(") < at("renameat2("), "{calls:#?}");
        // The names are on the disk too when the command ends.
        assert!(last("renameat2(") < last("syncfs("), "{calls:#?}");
        assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(fs.path());
    }

    [xfs, btrfs] fn sources_for_a_new_directory_are_opened_without_a_status_by_name(fs: &Filesystem) {
        let other = fs.elsewhere();
        // Copies to XFS are made through io_uring, which opens the sources.
        for elsewhere in [false, true].into_iter().take(if fs.kind == Kind::Xfs { 1 } else { 2 }) {
            let (source, copied) = (if elsewhere { &other } else { fs }.dir("source"), fs.join("copied"));
            fill(&source, 2);
            let args = ["copy".as_ref(), "-T".as_ref(), source.as_ref(), copied.as_ref()];
            let calls = tools::traced_calls("statx,openat", &args, &fs.join("log"));
            let count = |text: &str| calls.iter().filter(|call| call.contains(text)).count();
            let by_name = calls.iter().filter(|call| call.starts_with("statx(") && call.contains(", \"file-"));
            assert_eq!((by_name.count(), count(", \"file-")), (0, 160), "{calls:#?}");
            assert_equal_trees(&source, &copied);
            fs::remove_dir_all(copied).unwrap();
        }
    }

    [xfs, btrfs] fn files_in_a_directory_with_other_entries_get_their_times_after_the_sync(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        fill(&source, 2);
        std::os::unix::fs::symlink("nowhere", source.join("dir-000/link")).unwrap();
        write(source.join("dir-001/large"), &bytes(1, 2 << 20));
        sync(&source);
        let args = ["copy".as_ref(), "-T".as_ref(), source.as_ref(), copied.as_ref()];
        let calls = tools::traced_calls("utimensat,renameat2,syncfs", &args, &fs.join("log"));
        let at = |text: &str| calls.iter().position(|call| call.contains(text)).unwrap();
        let times = |call: &&String| call.contains("utimensat(") && call.contains("/file-");
        let synced = at("syncfs(");
        // Before the sync, files as young as these get another time.
        assert_eq!(calls[synced..].iter().filter(times).count(), 80, "{calls:#?}");
        assert!(calls[synced..].iter().filter(times).all(|call| !call.contains(".pleach-copy.")), "{calls:#?}");
        assert!(calls.iter().rposition(|call| call.contains("renameat2(")).unwrap() < synced, "{calls:#?}");
        assert_equal_trees(&source, &copied);
    }

    [xfs, btrfs] fn killed_at_the_sync_a_run_leaves_no_file_in_its_place_and_the_next_one_clears_up(fs: &Filesystem) {
        let (other, into) = (fs.elsewhere(), fs.dir("into"));
        let (source, copied) = (other.dir("source"), into.join("copied"));
        fill(&source, 30);
        let sealed = file(&source.join("dir-007"), 3);
        finish(Command::new("chattr").arg("+i").arg(&sealed)).expect(0);
        sync(&source);
        copy_with("signal=KILL:when=1", &source, &copied);
        assert_eq!((named(&copied), staged(&copied).len()), (Vec::new(), 30));
        settle();
        run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
        assert_nothing_unfinished(&into);
        assert_equal_trees(&source, &copied);
        let sealed_copy = file(&copied.join("dir-007"), 3);
        let flags = tools::tool("lsattr", &[], &sealed_copy).stdout;
        for path in [&sealed, &sealed_copy] {
            finish(Command::new("chattr").arg("-i").arg(path)).expect(0);
        }
        assert!(flags.split_whitespace().next().unwrap().contains('i'), "{flags}");
    }

    [xfs, btrfs] fn after_a_failed_sync_no_file_is_in_its_place(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        fill(&source, 5);
        copy_with("error=EIO:when=1+", &source, &copied).expect(1).saying("check the disk");
        assert_eq!(named(&copied), [""; 0].map(PathBuf::from));
        assert_nothing_unfinished(fs.path());
        run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
        assert_equal_trees(&source, &copied);
    }

    [xfs, btrfs] fn files_move_to_a_directory_that_somebody_else_created_and_replace_nothing(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        tree::crowded(&source, 40);
        fs::set_permissions(file(&source, 38), fs::Permissions::from_mode(0o640)).unwrap();
        finish(Command::new("chattr").arg("+i").arg(file(&source, 37))).expect(0);
        settle();
        let (stats, problems) = copy_until_sync(&source, &copied, || {
            fs::create_dir(&copied).unwrap();
            for (number, of) in [(39, 1), (38, 38)] {
                write(file(&copied, number), &bytes(of, 64 + number));
            }
            write(copied.join("more"), b"more");
        });
        assert_eq!((stats.errors, problems.len()), (1, 1), "{problems:?}");
        assert!(problems[0].contains("file-000039"), "{problems:?}");
        assert_nothing_unfinished(fs.path());
        assert_eq!(fs::read(file(&copied, 39)).unwrap(), bytes(1, 64 + 39));
        fs::remove_file(file(&copied, 39)).unwrap();
        fs::remove_file(copied.join("more")).unwrap();
        let summary = run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0).summary();
        assert_eq!(number(&summary, "unchanged_files"), 39, "{summary}");
        assert_equal_trees(&source, &copied);
        let flags = tools::tool("lsattr", &[], &file(&copied, 37)).stdout;
        for dir in [&source, &copied] {
            finish(Command::new("chattr").arg("-i").arg(file(dir, 37))).expect(0);
        }
        assert!(flags.split_whitespace().next().unwrap().contains('i'), "{flags}");
    }

    [xfs, btrfs] fn something_else_in_its_place_is_kept(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        fill(&source, 3);
        let taken = copied.join("dir-001");
        let (stats, problems) = copy_until_sync(&source, &copied, || write(&taken, b"a file"));
        assert_eq!((stats.errors, problems.len()), (1, 1), "{problems:?}");
        assert!(problems[0].contains("dir-001") && problems[0].contains("something else"), "{problems:?}");
        assert_eq!(fs::read(&taken).unwrap(), b"a file");
        assert_equal_trees(&source.join("dir-002"), &copied.join("dir-002"));
        assert_nothing_unfinished(fs.path());
    }

    [xfs, btrfs] fn another_run_keeps_the_directories_that_wait_and_both_end(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        fill(&source, 5);
        let (stats, problems) = copy_until_sync(&source, &copied, || {
            let waiting = staged(&copied).len();
            run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
            assert_eq!((waiting, staged(&copied).len()), (5, 5));
        });
        assert_eq!((stats.errors, problems), (0, Vec::new()));
        assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(fs.path());
    }

    [xfs, btrfs] fn directories_that_wait_need_few_descriptors(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        for number in 0..300 {
            let dir = source.join(format!("dir-{number:03}/inner"));
            fs::create_dir_all(&dir).unwrap();
            tree::crowded(&dir, 8);
        }
        settle();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 128 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pleach")]);
        finish(shell.args(["copy", "-T", "-j", "1"]).args([&source, &copied])).expect(0);
        assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(fs.path());
    }

    [xfs, btrfs] fn a_source_that_changes_before_the_sync_is_copied_by_the_next_run(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        tree::crowded(&source, 40);
        settle();
        let changed = file(&source, 20);
        let before = changed.metadata().unwrap();
        let (stats, _) = copy_until_sync(&source, &copied, || {
            settle();
            write(&changed, &bytes(99, before.len() as usize));
            fs::File::options().write(true).open(&changed).unwrap().set_modified(before.modified().unwrap()).unwrap();
        });
        assert_eq!(stats.files, 40);
        let now = changed.metadata().unwrap();
        assert_eq!((now.len(), now.mtime(), now.mtime_nsec()), (before.len(), before.mtime(), before.mtime_nsec()));
        settle();
        run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
        assert_equal_trees(&source, &copied);
    }
}
