//! Trees that somebody changes on purpose while root reads or writes them, and deceptive names.

mod repository;
mod rights;

use crate::harness::tools::{assert_equal_trees, files, inventory};
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::{Monitor, Recording, Silent};
use pleach::snapshot::{create, restore};
use rustix::fs::{CWD, RenameFlags, inotify, renameat_with};
use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread::{self, JoinHandle};

/// Content outside, which must be neither read nor written.
const SECRET: &[u8] = b"secret: nobody may read this";

/// A name in a tree, and a link to something outside that replaces it now and then.
struct Decoy {
    name: PathBuf,
    link: PathBuf,
    to: PathBuf,
}

/// Exchanges names and decoys until it is stopped or dropped; as fast as possible at first.
struct Swapper {
    stop: Arc<AtomicBool>,
    /// Whether it waits before each round, and leaves the processor to others.
    waits: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Swapper {
    fn start(decoys: Vec<Decoy>) -> Swapper {
        let (stop, waits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let [asked_to_stop, asked_to_wait] = [&stop, &waits].map(Arc::clone);
        let thread = thread::spawn(move || {
            let mut swaps = 0;
            while !asked_to_stop.load(Ordering::Relaxed) {
                if asked_to_wait.load(Ordering::Relaxed) {
                    thread::sleep(tools::SLOW_OPEN / 4);
                }
                for Decoy { name, link, to } in &decoys {
                    // A restore may just be working on one of them.
                    swaps += u64::from(renameat_with(CWD, name, CWD, link, RenameFlags::EXCHANGE).is_ok());
                    // A restore also replaces links; then a new link is needed.
                    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
                    if !is_link(name) && !is_link(link) {
                        let _ = fs::rename(link, link.with_extension(swaps.to_string()));
                        let _ = symlink(to, link);
                    }
                }
            }
            swaps
        });
        Swapper { stop, waits, thread: Some(thread) }
    }

    /// From now on it exchanges each name only a few times during an open of [`tools::with_slow_opens`].
    fn slow_down(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Stops it, and returns the number of exchanges.
    fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("nobody waited for it").join().expect("exchanging names does not fail")
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Directories and files that the kernel watches: every open, listing, read or change is detected.
struct Witness(OwnedFd);

/// All events except closing. A close follows every open anyway, and can come late and from the test itself: a process
/// that another test starts holds all open descriptors until it executes its program.
const SEEN: inotify::WatchFlags = inotify::WatchFlags::ALL_EVENTS.difference(inotify::WatchFlags::CLOSE);

impl Witness {
    fn of(dir: &Path) -> Witness {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        for path in tools::paths(dir) {
            inotify::add_watch(&watch, &path, SEEN).unwrap();
        }
        Witness(watch)
    }

    #[track_caller]
    fn assert_saw_nothing(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        if let Ok(event) = events.next() {
            panic!("something outside was touched: {:?} {:?}", event.events(), event.file_name());
        }
    }
}

/// A tree wide enough that names change while it is walked, and an equal tree outside that holds secrets.
fn twins(fs: &Filesystem) -> (PathBuf, PathBuf) {
    let (source, outside) = (fs.dir("source"), fs.dir("outside"));
    for number in 0..40_u64 {
        for (top, content) in [(&source, bytes(number, 9000)), (&outside, SECRET.to_vec())] {
            let inner = top.join(format!("dir-{number:02}/inner"));
            fs::create_dir_all(&inner).unwrap();
            for file in ["one", "two", "three"] {
                write(inner.join(file), &content);
                write(inner.join("..").join(file), &content);
            }
            fs::hard_link(inner.join("one"), inner.join("../linked")).unwrap();
        }
    }
    fs::hard_link(source.join("dir-00/linked"), source.join("dir-39/inner/far")).unwrap();
    (source, outside)
}

/// Links to entries outside under the same names as in `tree`: directories at two depths, and files.
fn decoys(fs: &Filesystem, tree: &Path, outside: &Path) -> Vec<Decoy> {
    let decoys = fs.dir("decoys");
    let names = ["dir-00", "dir-07/inner", "dir-20", "dir-21/one", "dir-22/inner/two", "dir-39/inner", "dir-39/linked"];
    let decoy = |(number, name): (usize, &&str)| {
        let decoy = Decoy { name: tree.join(name), link: decoys.join(number.to_string()), to: outside.join(name) };
        symlink(&decoy.to, &decoy.link).unwrap();
        decoy
    };
    names.iter().enumerate().map(decoy).collect()
}

#[track_caller]
fn assert_no_secret_in(dir: &Path) {
    for file in files(dir) {
        assert!(fs::read(&file).unwrap() != SECRET, "{} came from outside", file.display());
    }
}

/// Interferes once, when the engine asks whether it should stop: between listing a directory and entering the next.
struct Meddler<F> {
    once: Once,
    meddle: F,
    seen: Recording,
}

impl<F: Fn() + Sync> Monitor for Meddler<F> {
    fn problem(&self, error: &pleach::error::Error) {
        self.seen.problem(error);
    }

    fn is_cancelled(&self) -> bool {
        self.once.call_once(&self.meddle);
        false
    }
}

on_filesystems! {
    fn a_snapshot_reads_nothing_behind_links_that_come_and_go(fs: &Filesystem) {
        let (source, outside) = twins(fs);
        let repo = fs.join("repo");
        let witness = Witness::of(&outside);
        let swapper = Swapper::start(decoys(fs, &source, &outside));
        for number in 0..12 {
            let run = pleach(snapshot_named(&format!("night-{number}"), &source, &repo));
            assert!(matches!(run.status, 0 | 3), "{run:?}");
        }
        let swaps = swapper.stop();
        witness.assert_saw_nothing();
        assert!(swaps > 500, "only {swaps}");
        for name in published(&repo) {
            assert_no_secret_in(&repo.join(name));
        }
    }

    fn a_restore_writes_nothing_behind_links_that_come_and_go(fs: &Filesystem) {
        let (source, outside) = twins(fs);
        let (repo, target) = (fs.join("repo"), fs.dir("target"));
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        for file in files(&source) {
            overwrite(&file, 0, b"changed");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        }
        settle();
        pleach(snapshot_named("two", &source, &repo)).expect(0);
        let options = restore::Options { target: target.clone(), delete: true, ..restore::Options::default() };
        let run = |id| restore::restore(&repo, id, &[], &options, &Silent).expect("one entry stops nothing");
        assert_eq!(run("one").errors, 0);
        let inside = target.join(source.strip_prefix("/").unwrap());
        let before = inventory(&outside);
        let witness = Witness::of(&outside);
        let swapper = Swapper::start(decoys(fs, &inside, &outside));
        for number in 0..40 {
            run(["two", "one"][number % 2]);
        }
        witness.assert_saw_nothing();
        // With time for an exchange between the check of a name and its opening.
        swapper.slow_down();
        for number in 0..6 {
            let args = ["restore", "--delete", "--target"].map(OsStr::new);
            let args = args.into_iter().chain([target.as_ref(), repo.as_ref(), OsStr::new(["two", "one"][number % 2])]);
            let run = finish(&mut tools::with_slow_opens(args));
            assert!(matches!(run.status, 0 | 3), "{run:?}");
        }
        let swaps = swapper.stop();
        witness.assert_saw_nothing();
        assert!(swaps > 500, "only {swaps}");
        assert_same_lines(&inventory(&outside), &before);
        // When nobody interferes any more, everything is restored.
        assert_eq!(run("two").errors, 0);
        assert_equal_trees(&source, &inside);
    }

    fn a_copy_reads_and_writes_nothing_behind_links_that_come_and_go(fs: &Filesystem) {
        let (source, outside) = twins(fs);
        let (second, copied) = (fs.join("second"), fs.join("copied"));
        let copy = |from: &Path| {
            let args = [OsStr::new("copy"), "-q".as_ref(), "-T".as_ref(), from.as_ref(), copied.as_ref()];
            pleach(args)
        };
        copy(&source).expect(0);
        finish(Command::new("cp").arg("-a").arg(&source).arg(&second)).expect(0);
        for file in files(&second) {
            overwrite(&file, 0, b"changed");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        }
        let before = inventory(&outside);
        let witness = Witness::of(&outside);
        let mut all = decoys(fs, &copied, &outside);
        for Decoy { name, link, .. } in &mut all {
            let own = link.with_extension("copied");
            fs::rename(&*link, &own).unwrap();
            assert!(name.exists());
            *link = own;
        }
        all.extend(decoys(fs, &source, &outside));
        let swapper = Swapper::start(all);
        for number in 0..30 {
            let run = copy([&second, &source][number % 2]);
            assert!(matches!(run.status, 0 | 3), "{run:?}");
        }
        let swaps = swapper.stop();
        witness.assert_saw_nothing();
        assert!(swaps > 500, "only {swaps}");
        assert_same_lines(&inventory(&outside), &before);
        assert_no_secret_in(&copied);
    }

    fn a_directory_that_became_a_link_is_told_and_not_followed(fs: &Filesystem) {
        let (source, outside, repo) = (fs.dir("source"), fs.dir("outside"), fs.join("repo"));
        for (top, content) in [(&source, &b"ours"[..]), (&outside, SECRET)] {
            fs::create_dir(top.join("dir")).unwrap();
            write(top.join("dir/file"), content);
        }
        write(source.join("entry"), b"x");
        let witness = Witness::of(&outside);
        let meddle = || {
            fs::rename(source.join("dir"), fs.join("moved")).unwrap();
            symlink(outside.join("dir"), source.join("dir")).unwrap();
        };
        let monitor = Meddler { once: Once::new(), meddle, seen: Recording::default() };
        // One thread lists the source, asks, and only then enters the directory.
        let options = create::Options { threads: Some(1), ..create::Options::default() };
        let stats = create::create(std::slice::from_ref(&source), &repo, &options, &monitor).unwrap();
        let problems = monitor.seen.problems.into_inner().unwrap();
        assert_eq!((stats.files, stats.errors), (1, 1), "{problems:?}");
        assert!(problems[0].contains("open the directory") && problems[0].contains("source/dir"), "{problems:?}");
        witness.assert_saw_nothing();
        assert!(inside(&repo, "latest", &source).join("dir").symlink_metadata().is_err());
    }

    fn metadata_is_never_given_to_names_that_the_snapshot_does_not_know(fs: &Filesystem) {
        let (source, repo, target) = (fs.dir("source"), fs.join("repo"), fs.dir("target"));
        write(source.join("a"), &bytes(1, 5000));
        fs::hard_link(source.join("a"), source.join("b")).unwrap();
        snapshot(&source, &repo);
        let options = restore::Options {
            target: target.clone(),
            overwrite: restore::Overwrite::IfChanged,
            ..restore::Options::default()
        };
        let restore = || restore::restore(&repo, "latest", &[], &options, &Silent).unwrap();
        restore();
        let inside = target.join(source.strip_prefix("/").unwrap());
        // A third name of the inode, unknown to the snapshot; through it the owner and mode are changed.
        let elsewhere = fs.join("elsewhere");
        fs::hard_link(inside.join("a"), &elsewhere).unwrap();
        chown(&elsewhere, Some(4242), None).unwrap();
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(restore().errors, 0);
        let kept = elsewhere.metadata().unwrap();
        assert_eq!((kept.uid(), kept.mode() & 0o777, kept.nlink()), (4242, 0o600, 1));
        assert_equal_trees(&source, &inside);
    }

    fn a_reader_with_nothing_but_the_right_to_read_keeps_everything(fs: &Filesystem) {
        let (source, repo, target) = (fs.dir("source"), fs.dir("repo"), fs.dir("target"));
        tree::every_kind(&source);
        // Attributes for root only are hidden from everybody else.
        for args in
            [&["-x", "trusted.note", "attributes/trusted"][..], &["-h", "-x", "trusted.note", "attributes/link"]]
        {
            finish(Command::new("setfattr").args(args).current_dir(&source)).expect(0);
        }
        chown(&repo, Some(65_534), Some(65_534)).unwrap();
        settle();
        let run = |name: &str| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
            command.args(["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]);
            command.arg("--bounding-set=-all,+dac_read_search").arg(env!("CARGO_BIN_EXE_pleach"));
            finish(command.args(snapshot_named(name, &source, &repo)).env_remove("PLEACH_REPO"))
        };
        for name in ["one", "two"] {
            let summary = run(name).expect(0).summary();
            assert_eq!(number(&summary, "errors"), 0, "{summary}");
        }
        let copy = inside(&repo, "two", &source);
        assert_eq!(copy.join("modes/0000").metadata().unwrap().uid(), 65_534, "its files are its own");
        assert_eq!(copy.join("modes/4755").metadata().unwrap().mode() & 0o6000, 0, "and give nobody its rights");
        // Root restores everything from the manifest.
        let options = restore::Options { target: target.clone(), ..restore::Options::default() };
        let stats = restore::restore(&repo, "two", &[], &options, &Silent).unwrap();
        assert_eq!(stats.errors, 0);
        assert_equal_trees(&source, &target.join(source.strip_prefix("/").unwrap()));
    }

    [xfs] fn names_reach_no_terminal_as_they_are(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let names: [&[u8]; 4] =
            [b"bell\x07 \x1b[31mred", b"two\nlines", "c1 \u{9b}31m \u{202e}back".as_bytes(), b"\xff\x9b"];
        for name in names {
            let path = source.join(OsStr::from_bytes(name));
            write(&path, b"x");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        }
        for args in [&["snapshot"][..], &["snapshot", "--json", "--dry-run"], &["snapshot", "--dry-run", "-v"]] {
            let args = args.iter().map(OsStr::new).chain([source.as_ref(), repo.as_ref()]);
            let run = finish(&mut command_bound_by_permissions(args));
            let harmful = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}' || c == '\u{fffd}');
            for text in [&run.stdout, &run.stderr] {
                assert!(!text.contains(harmful), "{text:?}");
            }
            assert!(!run.stderr.lines().any(|line| line.starts_with("lines")), "{}", run.stderr);
        }
    }
}
