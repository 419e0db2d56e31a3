//! `pleach snapshot --freeze`: sources on Btrfs are read from a frozen snapshot of their subvolume.

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use pleach::error::{Error, ErrorKind};
use pleach::monitor::{Event, Monitor};
use pleach::snapshot::create::{self, Options, Stats};
use rustix::fs::{AtFlags, FlockOperation, StatxFlags, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, Once};

/// Interferes once after the walk has begun; then lets the run continue or stop.
struct Meddler<F> {
    once: Once,
    meddle: F,
    stop: bool,
    events: Mutex<Vec<String>>,
}

impl<F: Fn() + Sync> Monitor for Meddler<F> {
    fn problem(&self, error: &Error) {
        panic!("{error}");
    }

    fn event(&self, event: Event<'_>) {
        if !event.is_detail() && !matches!(event, Event::RepositoryMade(_)) {
            self.events.lock().unwrap().push(format!("{event:?}"));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.once.call_once(&self.meddle);
        self.stop
    }
}

/// Takes a frozen snapshot, and changes the living source meanwhile.
fn freeze(
    sources: &[PathBuf],
    repo: &Path,
    stop: bool,
    meddle: impl Fn() + Sync,
) -> (pleach::error::Result<Stats>, Vec<String>) {
    settle();
    let monitor = Meddler { once: Once::new(), meddle, stop, events: Mutex::default() };
    let options = Options { freeze: true, ..Options::default() };
    let result = create::create(sources, repo, &options, &monitor);
    (result, monitor.events.into_inner().unwrap())
}

/// A copy of the present state of a tree.
fn copy_of(tree: &Path, copy: PathBuf) -> PathBuf {
    finish(Command::new("cp").args(["-a", "--"]).arg(tree).arg(&copy)).expect(0);
    copy
}

/// A subvolume with a few files.
fn subvolume(path: &Path) {
    tools::tool("btrfs", &["subvolume", "create"], path);
    tree::plain(path);
}

on_filesystems! {
    [btrfs] fn the_tree_is_of_the_moment_when_the_run_began(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        subvolume(&source);
        let before = copy_of(&source, fs.join("before"));
        let (result, events) = freeze(std::slice::from_ref(&source), &repo, false, || {
            fs::remove_file(source.join("c/d/three")).unwrap();
            write(source.join("b"), b"changed meanwhile");
        });
        assert_eq!((result.unwrap().errors, events), (0, vec![]));
        tools::assert_equal_trees(&before, &inside(&repo, "latest", &source));
        assert_no_leftovers(&repo);
        // The next snapshot, frozen or not, finds exactly the changes.
        let summary = snapshot(&source, &repo);
        let counts = ["unchanged_files", "changed_files", "removed_files"].map(|field| number(&summary, field));
        assert_eq!(counts, [3, 1, 1], "{summary}");
        settle();
        let run =
            pleach(["snapshot".as_ref(), "--freeze".as_ref(), "--json".as_ref(), source.as_os_str(), repo.as_os_str()]);
        assert_eq!(number(&run.expect(0).summary(), "unchanged_files"), 4);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        assert_no_leftovers(&repo);
    }

    [btrfs] fn a_file_or_directory_somewhere_in_a_subvolume_is_frozen_with_it(fs: &Filesystem) {
        // Not the subvolume that all tests share: other tests count the owners of their extents meanwhile.
        let (top, repo) = (fs.join("top"), fs.join("repo"));
        tools::tool("btrfs", &["subvolume", "create"], &top);
        let outer = top.join("outer");
        tree::plain(&outer);
        let sources = [outer.join("c"), outer.join("b")];
        let before = copy_of(&outer.join("c"), fs.join("before"));
        let (result, _) = freeze(&sources, &repo, false, || fs::remove_dir_all(outer.join("c/d")).unwrap());
        assert_eq!(result.unwrap().files, 4);
        tools::assert_equal_trees(&before, &inside(&repo, "latest", &outer.join("c")));
        assert_eq!(names(&inside(&repo, "latest", &outer)), ["b", "c"]);
    }

    [btrfs] fn subvolumes_below_are_read_as_they_live_and_named_unless_they_are_sources_too(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        subvolume(&source);
        let nested = source.join("c/nested");
        subvolume(&nested);
        let (result, events) =
            freeze(std::slice::from_ref(&source), &repo, false, || write(nested.join("c/late"), b"late"));
        assert_eq!(result.unwrap().errors, 0);
        assert!(
            events.len() == 1 && events[0].contains("NotFrozen(\"") && events[0].contains("c/nested\")"),
            "{events:?}"
        );
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));

        let both = [source.clone(), nested.clone()];
        let before = copy_of(&source, fs.join("before"));
        let (result, events) = freeze(&both, &repo, false, || write(nested.join("c/later"), b"later"));
        assert_eq!((result.unwrap().errors, events), (0, vec![]));
        tools::assert_equal_trees(&before, &inside(&repo, "latest", &source));
    }

    [btrfs]
    fn the_repository_in_a_frozen_source_is_left_out_and_no_other_directory_with_its_inode_number(fs: &Filesystem) {
        let home = fs.join("home");
        tools::tool("btrfs", &["subvolume", "create"], &home);
        let repo = home.join("repo");
        let status = |path: &Path| rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::ALL).unwrap();
        // Created in the same clock tick as the repository, if possible.
        let source = (0..50).map(|number| fs.join(format!("source-{number}"))).find(|source| {
            tools::tool("btrfs", &["subvolume", "create"], source);
            let _ = fs::remove_dir(&repo);
            fs::create_dir(&repo).unwrap();
            fs::create_dir(source.join("data")).unwrap();
            let (own, other) = (status(&repo), status(&source.join("data")));
            own.stx_ino == other.stx_ino && own.stx_btime.tv_nsec == other.stx_btime.tv_nsec
        });
        let source = source.unwrap_or_else(|| fs.join("source-49"));
        write(source.join("data/file"), b"not to be missed");
        write(home.join("beside"), b"beside the repository");
        let sources = [home.clone(), source.clone()];
        let (result, events) = freeze(&sources, &repo, false, || ());
        assert_eq!(result.unwrap().errors, 0);
        assert!(events.iter().any(|event| event.contains("RepositorySkipped")), "{events:?}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        assert_eq!(names(&inside(&repo, "latest", &home)), ["beside"]);
    }

    [btrfs] fn other_filesystems_below_are_read_as_they_live(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        subvolume(&source);
        let mounted = source.join("c/d");
        finish(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&mounted)).expect(0);
        write(mounted.join("elsewhere"), b"on a filesystem of its own");
        let (result, _) = freeze(std::slice::from_ref(&source), &repo, false, || ());
        let copy = inside(&repo, "latest", &source).join("c/d/elsewhere");
        let content = fs::read(copy);
        finish(Command::new("umount").arg(&mounted)).expect(0);
        assert_eq!(result.unwrap().errors, 0);
        assert_eq!(content.unwrap(), b"on a filesystem of its own");
    }

    [btrfs] fn nothing_frozen_stays_after_an_interruption(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        subvolume(&source);
        let (result, _) = freeze(std::slice::from_ref(&source), &repo, true, || ());
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Interrupted);
        assert!(!repo.join(".pleach/partial/.frozen").exists());
        assert_eq!(published(&repo), [""; 0]);
    }

    [btrfs] fn what_a_killed_run_froze_is_deleted_by_the_next(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        subvolume(&source);
        snapshot(&source, &repo);
        let frozen = repo.join(".pleach/partial/.frozen");
        fs::create_dir(&frozen).unwrap();
        finish(Command::new("btrfs").args(["subvolume", "snapshot", "-r"]).arg(&source).arg(frozen.join("0")))
            .expect(0);
        snapshot(&source, &repo);
        assert_no_leftovers(&repo);
    }

    [xfs, ext4] fn a_source_elsewhere_than_on_btrfs_is_refused(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let run = pleach(["snapshot".as_ref(), "--freeze".as_ref(), source.as_os_str(), repo.as_os_str()]);
        run.expect(2).saying("only one on btrfs");
        assert!(!repo.exists(), "nothing was done");
    }
}

#[test]
fn from_another_btrfs_it_is_frozen_in_the_top_level_subvolume_for_as_long_as_it_takes() {
    let test = concat!(module_path!(), "::from_another_btrfs_it_is_frozen_in_the_top_level_subvolume");
    let (Some(fs), Some(other)) =
        (Own::new(Kind::Btrfs, test, 512, &[], ""), Own::new(Kind::Btrfs, test, 512, &[], ""))
    else {
        return;
    };
    let (source, repo) = (other.join("source"), fs.join("repo"));
    subvolume(&source);
    // One left by a killed run, and one in use by another run.
    for name in [".pleach-frozen-1.1.0", ".pleach-frozen-1.2.0"] {
        finish(Command::new("btrfs").args(["subvolume", "snapshot", "-r"]).arg(&source).arg(other.join(name)))
            .expect(0);
    }
    let used = File::open(other.join(".pleach-frozen-1.2.0")).unwrap();
    flock(&used, FlockOperation::NonBlockingLockExclusive).unwrap();
    let before = copy_of(&source, fs.join("before"));
    let seen = Mutex::new(Vec::new());
    let (result, _) = freeze(std::slice::from_ref(&source), &repo, false, || {
        seen.lock().unwrap().extend(names(other.path()));
        fs::remove_file(source.join("b")).unwrap();
    });
    assert_eq!(result.unwrap().errors, 0);
    tools::assert_equal_trees(&before, &inside(&repo, "latest", &source));
    assert_eq!(seen.into_inner().unwrap().len(), 3, "the source, the tree in use, and the frozen tree");
    assert_eq!(names(other.path()), [".pleach-frozen-1.2.0", "source"]);
}
