//! Files that somebody else saves at a copy's path, after pleach decided to replace the old file, are kept.

use super::assert_nothing_unfinished;
use crate::harness::meddler::{Meddler, When};
use crate::harness::tools::assert_equal_trees;
use crate::harness::{Filesystem, bytes, settle, write};
use crate::on_filesystems;
use pleach::copy_tree::{self, Options, Placement, Stats};
use pleach::testing::copy::Engine;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// Copies the content of `source` to `copied`, while somebody else interferes.
fn copied(fs: &Filesystem, engine: Engine, when: When, meddle: impl Fn() + Sync) -> (Stats, Vec<String>) {
    let meddler = Meddler::new(when, meddle);
    let options = Options { engine: Some(engine), into: Placement::Name, threads: Some(1), ..Options::default() };
    let stats = copy_tree::copy(&[fs.join("source")], &fs.join("copied"), &options, &meddler).unwrap();
    assert_nothing_unfinished(fs.path());
    (stats, meddler.problems())
}

/// Saves a file like editors do: under a temporary name first.
fn save(path: &Path) {
    write(path.with_extension("new"), b"mine");
    fs::rename(path.with_extension("new"), path).unwrap();
}

/// A source with some files, and older files at the paths of their copies.
fn older(fs: &Filesystem) {
    for (dir, seed) in [(fs.dir("source"), 1), (fs.dir("copied"), 50)] {
        (0..5).for_each(|number| write(dir.join(format!("file-{number}")), &bytes(seed + number, 20_000)));
    }
    settle();
}

on_filesystems! {
    fn a_source_that_changes_after_it_was_found_equal_never_passes_for_copied(fs: &Filesystem) {
        older(fs);
        let (source, copy) = (fs.join("source"), fs.join("copied"));
        let first = || copied(fs, Engine::Buffered, When::Copying, || {});
        first();
        // Only the mode of `file-0` differs now; another file is copied before it gets its mode.
        let old = source.join("file-0");
        fs::set_permissions(&old, fs::Permissions::from_mode(0o600)).unwrap();
        write(source.join("large"), &bytes(77, 4 << 20));
        settle();
        let (stats, problems) = copied(fs, Engine::Buffered, When::Copying, || {
            File::options().write(true).open(&old).unwrap().write_all(&bytes(99, 20_000)).unwrap();
        });
        assert_eq!((stats.errors, problems.len()), (0, 0), "{problems:?}");
        assert!(fs::read(copy.join("file-0")).unwrap() == bytes(99, 20_000), "it was copied again");
        assert_equal_trees(&source, &copy);
    }

    fn what_is_saved_while_its_copy_waits_for_the_sync_is_kept(fs: &Filesystem) {
        older(fs);
        let place = |name: &str| fs.join("copied").join(name);
        let (stats, problems) = copied(fs, Engine::Buffered, When::Syncing, || {
            assert_eq!(fs::read(place("file-0")).unwrap(), bytes(50, 20_000), "it waits");
            save(&place("file-0"));
            File::options().append(true).open(place("file-1")).unwrap().write_all(b"mine").unwrap();
            fs::remove_file(place("file-2")).unwrap();
            symlink("mine", place("file-3.new")).unwrap();
            fs::rename(place("file-3.new"), place("file-3")).unwrap();
        });
        assert_eq!((stats.files, stats.errors), (5, 3), "{problems:?}");
        assert!(problems.iter().all(|problem| problem.contains("it was kept")), "{problems:?}");
        assert_eq!(fs::read(place("file-0")).unwrap(), b"mine");
        assert_eq!(fs::read(place("file-1")).unwrap(), [&bytes(51, 20_000)[..], b"mine"].concat());
        assert_eq!(fs::read_link(place("file-3")).unwrap(), Path::new("mine"));
        // A file that was removed is not a loss.
        for number in [2, 4] {
            assert_eq!(fs::read(place(&format!("file-{number}"))).unwrap(), bytes(1 + number, 20_000));
        }
    }

    fn what_is_saved_while_its_source_is_copied_is_kept(fs: &Filesystem) {
        older(fs);
        let engines: &[Engine] = if fs.reflinks() { &[Engine::Buffered, Engine::Clone] } else { &[Engine::Buffered] };
        for engine in engines {
            let place = fs.join("copied");
            let saved = || (0..5).for_each(|number| save(&place.join(format!("file-{number}"))));
            let (stats, problems) = copied(fs, *engine, When::Copying, saved);
            assert_eq!((stats.errors, problems.len()), (5, 5), "{problems:?}");
            assert!(problems.iter().all(|problem| problem.contains("it was kept")), "{problems:?}");
            (0..5).for_each(|number| assert_eq!(fs::read(place.join(format!("file-{number}"))).unwrap(), b"mine"));
        }
    }

    fn what_came_where_nothing_was_is_kept_unless_it_is_equal(fs: &Filesystem) {
        let place = fs.dir("copied").join("file");
        write(fs.dir("source").join("file"), &bytes(1, 3 << 20));
        settle();
        for content in [bytes(1, 3 << 20), bytes(2, 3 << 20)] {
            let _ = fs::remove_file(&place);
            let (stats, problems) = copied(fs, Engine::Buffered, When::Copying, || write(&place, &content));
            let is_equal = content == bytes(1, 3 << 20);
            assert_eq!(stats.errors, u64::from(!is_equal), "{problems:?}");
            assert_eq!(fs::read(&place).unwrap(), content);
            if is_equal {
                assert_equal_trees(&fs.join("source"), &fs.join("copied"));
            } else {
                assert!(problems[0].contains("somebody else meanwhile"), "{problems:?}");
            }
        }
    }

    fn names_of_one_inode_are_no_change_of_each_other(fs: &Filesystem) {
        let (source, place) = (fs.dir("source"), fs.dir("copied"));
        // Names of one file: on both sides, in the source only, and in the destination only.
        for name in ["a", "b", "c", "d", "e", "f"] {
            write(source.join(name), &bytes(1, 9000));
            write(place.join(name), &bytes(60, 9000));
        }
        for (dir, name, other) in [(&source, "a", "b"), (&place, "a", "b"), (&source, "c", "d"), (&place, "e", "f")] {
            fs::remove_file(dir.join(other)).unwrap();
            fs::hard_link(dir.join(name), dir.join(other)).unwrap();
        }
        settle();
        let engines: &[Engine] = if fs.reflinks() { &[Engine::Buffered, Engine::Clone] } else { &[Engine::Buffered] };
        for (round, engine) in (2..).zip(engines) {
            for name in ["a", "c", "e", "f"] {
                write(source.join(name), &bytes(round, 9000));
            }
            let (stats, problems) = copied(fs, *engine, When::Syncing, || {});
            assert_eq!((stats.files, stats.errors), (6, 0), "{problems:?}");
            assert_equal_trees(&source, &place);
        }
    }

    fn metadata_is_not_given_to_what_was_saved_meanwhile(fs: &Filesystem) {
        let (source, place) = (fs.dir("source"), fs.dir("copied"));
        write(source.join("first"), &bytes(1, 3 << 20));
        write(source.join("second"), b"second");
        write(place.join("second"), b"second");
        let modified = source.join("second").metadata().unwrap().modified().unwrap();
        File::options().write(true).open(place.join("second")).unwrap().set_modified(modified).unwrap();
        std::os::unix::fs::chown(place.join("second"), None, Some(1234)).unwrap();
        settle();
        let (stats, problems) = copied(fs, Engine::Buffered, When::Copying, || save(&place.join("second")));
        assert_eq!(fs::read(place.join("second")).unwrap(), b"mine");
        assert_eq!((stats.files, stats.errors), (1, 1), "{problems:?}");
        assert!(problems[0].contains("second") && problems[0].contains("it was kept"), "{problems:?}");
        assert_eq!(place.join("second").metadata().unwrap().gid(), 0);
    }
}
