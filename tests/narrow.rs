//! Snapshots that look only at what changed since the last one, as Btrfs's transactions or the inodes of XFS show it.

mod both;
mod xfs;

use crate::harness::edits::Tree;
use crate::harness::meddler::{Meddler, When};
use crate::harness::mounted::Mounted;
use crate::harness::own::Own;
use crate::harness::random::{Random, seed};
use crate::harness::*;
use crate::on_filesystems;
use both::Both;
use pleach::monitor::Recording;
use pleach::snapshot::create::{self, Options, Stats};
use pleach::tree::exclude::Patterns;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Whether a run reported an event of this kind.
fn has(recording: &Recording, event: &str) -> bool {
    recording.events.lock().unwrap().iter().any(|known| known.starts_with(event))
}

/// Takes a snapshot in this process.
fn take(name: &str, sources: &[PathBuf], repo: &Path, options: &Options) -> (Stats, Recording) {
    let recording = Recording::default();
    let options = Options { name: Some(name.into()), ..options.clone() };
    let stats = create::create(sources, repo, &options, &recording).expect("a snapshot can be taken");
    // The space and the time depend on the machine, and the count of exclusions on where the run looked.
    let stats = Stats { seconds: 0.0, added: None, free_bytes: 0, excluded: Default::default(), ..stats };
    (stats, recording)
}

#[test]
fn random_changes_give_the_tree_and_the_manifest_of_a_walk_of_everything() {
    let test = concat!(module_path!(), "::random_changes_give_the_tree_and_the_manifest_of_a_walk_of_everything");
    let Some(own) = Own::new(Kind::Btrfs, test, 4000, &[], "") else { return };
    random_changes(Kind::Btrfs, &own, &own, 4);
    own.assert_clean();
}

#[test]
fn names_of_one_inode_stay_so_if_directories_change_places() {
    let test = concat!(module_path!(), "::names_of_one_inode_stay_so_if_directories_change_places");
    let Some(own) = Own::new(Kind::Btrfs, test, 1000, &[], "") else { return };
    let source = own.join("source");
    tools::tool("btrfs", &["-q", "subvolume", "create"], &source).expect(0);
    fill(&source, 20);
    let path = |name: &str| source.join(name);
    for (from, to) in [("002/file-1", "003/also"), ("004/file-1", "005/also"), ("006/file-1", "007/below/also")] {
        fs::create_dir_all(path(to).parent().unwrap()).unwrap();
        fs::hard_link(path(from), path(to)).unwrap();
    }
    let options = Options { threads: Some(1), ..Options::default() };
    let both = Both::new(Kind::Btrfs, &own, "links", vec![source.clone()], options);
    both.night("one", "nothing");
    both.night("two", "nothing");
    renameat_with(CWD, path("003"), CWD, path("010"), RenameFlags::EXCHANGE).unwrap();
    assert!(both.night("three", "an exchange of two directories"));
    fs::rename(path("005"), path("moved")).unwrap();
    assert!(both.night("four", "a new name of a directory"));
    fs::rename(path("007"), path("011/moved")).unwrap();
    assert!(both.night("five", "a new place of a directory"));
    own.assert_clean();
}

/// Compares narrow walks with walks of everything after random changes, for this number of nights each.
fn random_changes(kind: Kind, own: &Own, repos: &Own, last_night: u64) {
    let sequences = env::var("PLEACH_TEST_SEQUENCES").map_or(12, |number| number.parse().expect("it is a number"));
    let seed = seed();
    let (mut nights, mut narrow) = (0, 0);
    for sequence in 0..sequences {
        let source = own.join(format!("source-{sequence}"));
        let mut options = Options { freeze: sequence % 3 == 2 && kind == Kind::Btrfs, ..Options::default() };
        options.excludes.caches = sequence % 3 == 1;
        // With several threads, chance decides which name of an inode is added first, and how the bytes are counted.
        let options = Options { threads: Some(1), ..options };
        let both = Both::new(kind, repos, &sequence.to_string(), vec![source.clone()], options);
        let mut tree = Tree::new(kind, source.clone(), Random(seed.wrapping_add(sequence)));
        both.night("n0", "the first");
        for night in 1..=last_night {
            for _ in 0..1 + night * 3 {
                tree.change();
            }
            match (sequence + night) % 8 {
                _ if kind != Kind::Btrfs => {}
                3 => drop(tools::tool("btrfs", &["balance", "start", "--full-balance"], own.path())),
                5 => drop(tools::tool("btrfs", &["scrub", "start", "-B"], own.path())),
                _ => {}
            }
            let what = format!("PLEACH_TEST_SEED={seed} sequence {sequence}: {:?}", tree.done);
            nights += 1;
            narrow += u32::from(both.night(&format!("n{night}"), &what));
        }
        both.remove();
        tools::let_be_removed(&source);
        fs::remove_dir_all(&source).unwrap();
    }
    report(&format!("{narrow} of {nights} nights were narrow"));
    counted(sequences as usize, "sequences of changes");
    assert!(narrow * 2 > nights, "most nights are narrow: {narrow} of {nights}");
}

/// A subvolume with `directories` directories of 20 files, and two snapshots of it: the second finds all settled.
fn settled(source: &Path, directories: u32, repo: &Path) {
    tools::tool("btrfs", &["-q", "subvolume", "create"], source).expect(0);
    fill(source, directories);
    settle();
    for name in ["one", "two"] {
        take(name, &[source.to_path_buf()], repo, &Options::default());
    }
}

/// Makes `directories` directories of 20 files.
fn fill(source: &Path, directories: u32) {
    for directory in 0..directories {
        let path = source.join(format!("{directory:03}"));
        fs::create_dir(&path).unwrap();
        (0..20)
            .for_each(|file| write(path.join(format!("file-{file}")), &bytes(u64::from(directory * 20 + file), 6000)));
    }
}

/// Takes a snapshot and returns its counts, and why it looked at everything; `None` if it did not.
fn night(name: &str, source: &Path, repo: &Path) -> (Stats, Option<String>) {
    settle();
    let (stats, recording) = take(name, &[source.to_path_buf()], repo, &Options::default());
    let events = recording.events.lock().unwrap();
    let why = events.iter().find(|event| event.starts_with("WholeWalk")).cloned();
    let is_narrow = events.iter().any(|event| event.starts_with("ChangesOnly"));
    (stats, if is_narrow { None } else { Some(why.unwrap_or_default()) })
}

on_filesystems! {
    [btrfs] fn unchanged_directories_are_neither_listed_nor_their_entries_looked_at(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        settled(&source, 100, &repo);
        for directory in ["007", "042"] {
            write(source.join(directory).join("file-3"), &bytes(1, 7000));
        }
        settle();
        let args = snapshot_named("three", &source, &repo);
        let calls = tools::traced_calls("getdents64,statx", &args, &fs.join("trace"));
        let below = format!("{}/", source.display());
        let of = |call: &str| calls.iter().filter(|line| line.contains(call) && line.contains(&below)).count();
        // The spot check looks at the entries of up to 16 directories. One is listed to see that the source is not
        // empty.
        assert!(of("getdents64") <= 1 && of("statx") <= 16 * 22 + 40, "{} {}", of("getdents64"), of("statx"));
        let (stats, why) = night("four", &source, &repo);
        assert_eq!((stats.files, stats.unchanged_files, stats.read_bytes, why), (2000, 2000, 0, None));
        tools::assert_equal_trees(&source, &inside(&repo, "three", &source));
    }

    [btrfs] fn a_record_that_is_missing_or_damaged_leads_to_a_walk_of_everything(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        settled(&source, 3, &repo);
        let seen = |name: &str| repo.join(".pleach/seen").join(name);
        assert_eq!(names(&repo.join(".pleach/seen")), ["two"], "only the newest is of use");
        overwrite(&seen("two"), 60, b"x");
        write(source.join("001/file-3"), b"another");
        let (stats, why) = night("three", &source, &repo);
        assert_eq!((stats.changed_files, why), (1, Some(String::new())));
        fs::remove_file(seen("three")).unwrap();
        assert_eq!(night("four", &source, &repo).1, Some(String::new()));
        assert_eq!(night("five", &source, &repo).1, None);
        pleach([OsStr::new("remove"), repo.as_os_str(), OsStr::new("five")]).expect(0);
        assert_eq!(names(&repo.join(".pleach/seen")), [""; 0]);
    }

    [btrfs] fn other_options_lead_to_a_walk_of_everything(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        settled(&source, 3, &repo);
        let mut options = Options::default();
        options.excludes.patterns = Patterns::new(["file-1*".into()]).unwrap();
        let sources = [source.clone()];
        settle();
        let (stats, recording) = take("three", &sources, &repo, &options);
        assert!(has(&recording, "WholeWalk(OtherConditions)"), "{:?}", recording.events);
        assert_eq!(stats.files, 3 * 9);
        let (stats, recording) = take("four", &sources, &repo, &options);
        assert!(has(&recording, "ChangesOnly") && stats.files == 3 * 9, "{:?}", recording.events);
    }

    [btrfs] fn after_some_narrow_walks_everything_is_looked_at_again(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        settled(&source, 3, &repo);
        let options = Options { narrow_walks: Some(3), ..Options::default() };
        let is_narrow: Vec<bool> = (3..10)
            .map(|number| take(&format!("n{number}"), std::slice::from_ref(&source), &repo, &options).1)
            .map(|recording| has(&recording, "ChangesOnly"))
            .collect();
        assert_eq!(is_narrow, [true, true, false, true, true, true, false]);
        let forced = [OsStr::new("-v"), OsStr::new("--full-walk")];
        let run = pleach(snapshot_named("forced", &source, &repo).into_iter().chain(forced)).expect(0);
        run.saying("looking at everything: it is time to check that nothing was missed");
    }

    [btrfs] fn what_is_mounted_below_a_source_is_found_and_what_is_not_is_gone(fs: &Filesystem) {
        let (source, repo) = (fs.join("source"), fs.join("repo"));
        settled(&source, 3, &repo);
        let mounted = Mounted::tmpfs(&source.join("001"));
        write(source.join("001/in memory"), b"in memory");
        let (stats, why) = night("three", &source, &repo);
        assert_eq!((stats.files, stats.removed_files, why), (41, 20, None));
        assert!(inside(&repo, "three", &source).join("001/in memory").exists());
        write(source.join("001/later"), b"later");
        assert_eq!(night("four", &source, &repo).0.files, 42);
        drop(mounted);
        let (stats, why) = night("five", &source, &repo);
        assert_eq!((stats.files, stats.new_files, why), (60, 20, None));
        tools::assert_equal_trees(&source, &inside(&repo, "five", &source));
    }
}

/// What changed last before the copy, and in the snapshot that the copy undoes, has changed again by the next one: only
/// the mount shows that the transactions are others.
#[test]
fn a_filesystem_that_was_set_back_is_looked_at_as_a_whole() {
    let test = concat!(module_path!(), "::a_filesystem_that_was_set_back_is_looked_at_as_a_whole");
    let Some(mut own) = Own::new(Kind::Btrfs, test, 400, &[], "") else { return };
    let Some(other) = Own::new(Kind::Btrfs, test, 400, &[], "") else { return };
    let (source, repo) = (own.join("source"), other.join("repo"));
    settled(&source, 20, &repo);
    let copy = own.image().with_extension("copy");
    own.edit_image(|image| assert!(fs::copy(image, &copy).is_ok()));
    let log = |rounds: std::ops::Range<u64>| {
        for round in rounds {
            write(source.join("009/file-9"), &bytes(round, 5000));
            shapes::settle(&source);
        }
    };
    log(0..10);
    assert_eq!(night("three", &source, &repo).0.changed_files, 1);
    own.edit_image(|image| assert!(fs::copy(&copy, image).is_ok()));
    write(source.join("003/file-3"), b"after the copy");
    log(10..30);
    let (stats, why) = night("four", &source, &repo);
    assert_eq!(why.as_deref(), Some("WholeWalk(MountedAgain)"));
    assert_eq!(stats.changed_files, 2);
    tools::assert_equal_trees(&source, &inside(&repo, "four", &source));
}

#[test]
fn other_device_numbers_after_a_mount_change_nothing() {
    let test = concat!(module_path!(), "::other_device_numbers_after_a_mount_change_nothing");
    let Some(mut own) = Own::new(Kind::Btrfs, test, 400, &[], "") else { return };
    let (source, repo) = (own.join("source"), own.join("repo"));
    settled(&source, 20, &repo);
    let before = fs::metadata(&source).unwrap().dev();
    let mut others = Vec::new();
    // Other tests may release numbers meanwhile.
    for _ in 0..10 {
        own.edit_image(|_| others.extend((0..3).filter_map(|_| Own::new(Kind::Btrfs, test, 120, &[], ""))));
        // Subvolumes get their numbers when they are first looked at.
        others.iter().for_each(|other| assert!(fs::metadata(other.path()).is_ok()));
        if fs::metadata(&source).unwrap().dev() != before {
            break;
        }
    }
    assert_ne!(fs::metadata(&source).unwrap().dev(), before, "the test needs another number");
    write(source.join("003/file-3"), b"another");
    let (stats, why) = night("three", &source, &repo);
    assert_eq!((stats.changed_files, stats.unchanged_files), (1, 399));
    assert_eq!(why.as_deref(), Some("WholeWalk(MountedAgain)"));
    assert_eq!(night("four", &source, &repo).1, None);
    let options = Options { narrow_walks: Some(0), ..Options::default() };
    let (stats, recording) = take("five", std::slice::from_ref(&source), &repo, &options);
    assert_eq!((stats.changed_files, stats.unchanged_files, stats.read_bytes), (0, 400, 0));
    assert!(!has(&recording, "ChangeMissed"), "{:?}", recording.events);
}

#[test]
fn a_change_that_a_power_cut_takes_back_after_a_run_saw_it_is_noticed() {
    let test = concat!(module_path!(), "::a_change_that_a_power_cut_takes_back_after_a_run_saw_it_is_noticed");
    // Without this option, the filesystem would commit by itself while the test waits.
    let Some(mut own) = Own::new(Kind::Btrfs, test, 400, &[], "commit=300") else { return };
    let Some(other) = Own::new(Kind::Btrfs, test, 400, &[], "") else { return };
    let (source, repo) = (own.join("source"), other.join("repo"));
    settled(&source, 5, &repo);
    let why = cut_power_after_a_late_change(&mut own, &source, &repo);
    assert_eq!(why.as_deref(), Some("WholeWalk(MountedAgain)"));
}

/// Takes a snapshot that sees a change made after it began, cuts the power of the source, and asserts that the next
/// snapshot has the source as it is then. Returns why that looks at everything.
fn cut_power_after_a_late_change(own: &mut Own, source: &Path, repo: &Path) -> Option<String> {
    let late = source.join("003/file-3");
    // This directory will be listed.
    write(source.join("003/new"), b"new");
    settle();
    let meddler = Meddler::new(When::Narrowing, || write(&late, b"while the run walks"));
    let options = Options { name: Some("late".into()), ..Options::default() };
    create::create(&[source.to_path_buf()], repo, &options, &meddler).expect("a snapshot can be taken");
    assert_eq!(meddler.problems(), [""; 0]);
    assert_eq!(fs::read(inside(repo, "late", source).join("003/file-3")).unwrap(), b"while the run walks");
    let copy = own.image().with_extension("copy");
    fs::copy(own.image(), &copy).unwrap();
    own.edit_image(|image| assert!(fs::copy(&copy, image).is_ok()));
    fs::remove_file(copy).unwrap();
    let (_, why) = night("after", source, repo);
    tools::assert_equal_trees(source, &inside(repo, "after", source));
    why
}

on_filesystems! {
    [btrfs] fn each_set_of_sources_in_a_repository_has_its_own_record(fs: &Filesystem) {
        let (one, other, repo) = (fs.join("one"), fs.join("other"), fs.join("repo"));
        settled(&one, 3, &repo);
        settled(&other, 3, &fs.join("unused"));
        for name in ["a", "b"] {
            night(&format!("other-{name}"), &other, &repo);
        }
        assert_eq!(night("one-c", &one, &repo).1, None);
        assert_eq!(night("other-c", &other, &repo).1, None);
    }
}
