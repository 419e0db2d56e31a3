//! `--verify` reads both sides back and finds differences.

use super::{copy, run};
use crate::harness::meddler::{Meddler, When};
use crate::harness::*;
use crate::on_filesystems;
use pleach::copy_tree::{self, Options, Placement};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

fn verify(from: &Path, to: &Path) -> Run {
    run([OsStr::new("--verify"), "-T".as_ref(), from.as_ref(), to.as_ref()])
}

on_filesystems! {
    fn every_byte_of_both_sides_is_read_back(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, copied) = (other.dir("source"), fs.join("copied"));
        tree::every_kind(&source);
        let plain = copy(&source, &fs.join("plain"));
        let summary = verify(&source, &copied).expect(0).summary();
        // All names of an inode are read.
        assert_eq!(
            (number(&summary, "verified_files"), number(&summary, "damaged")),
            (number(&summary, "files"), 0),
            "{summary}"
        );
        let read = number(&summary, "read_bytes") - number(&plain, "read_bytes");
        assert!(read >= 2 * number(&plain, "copied_bytes"), "{summary} {plain}");
        tools::assert_equal_trees(&source, &copied);
    }

    fn a_copy_that_is_not_equal_is_told_and_gives_status_four(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::plain(&source);
        settle();
        copy(&source, &copied);
        // Like a failing disk: other bytes, but the same size and time.
        for name in ["b", "c/d/three"] {
            let time = copied.join(name).metadata().unwrap().modified().unwrap();
            overwrite(&copied.join(name), 4000, b"!");
            File::options().write(true).open(copied.join(name)).unwrap().set_modified(time).unwrap();
        }
        // Files as recent as the run are compared, whatever their time.
        settle();
        let unnoticed = run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0).summary();
        assert_eq!(number(&unnoticed, "unchanged_files"), 5, "size and time are all it looks at");
        let found =
            verify(&source, &copied).expect(4).saying("copied/b").saying("three").saying("not that of its source");
        let summary = found.summary();
        assert_eq!((number(&summary, "damaged"), number(&summary, "verified_files")), (2, 5), "{summary}");
        assert_eq!(found.stderr.lines().count(), 2, "{}", found.stderr);
        for name in ["b", "c/d/three"] {
            fs::remove_file(copied.join(name)).unwrap();
        }
        verify(&source, &copied).expect(0);
    }

    fn a_wrong_copy_of_this_run_is_copied_again_by_the_next_one(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::plain(&source);
        fs::hard_link(source.join("b"), source.join("other")).unwrap();
        // A time that a wrong copy could get.
        tree::set_mtime(&source.join("a"), 0, 0);
        settle();
        let spoil = || {
            for name in ["a", "b"] {
                let time = copied.join(name).metadata().unwrap().modified().unwrap();
                overwrite(&copied.join(name), 100, b"!");
                File::options().write(true).open(copied.join(name)).unwrap().set_modified(time).unwrap();
            }
        };
        let monitor = Meddler::new(When::Verifying, spoil);
        let options = Options { verify: true, threads: Some(2), into: Placement::Name, ..Options::default() };
        let stats = copy_tree::copy(std::slice::from_ref(&source), &copied, &options, &monitor).unwrap();
        let problems = monitor.problems();
        assert_eq!((stats.damaged, stats.errors, problems.len()), (3, 0, 3), "{problems:?}");
        let is_marked = |problem: &String| problem.ends_with("so that the next run copies it again)");
        assert!(problems.iter().all(is_marked), "{problems:?}");
        settle();
        let again = run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0).summary();
        assert_eq!(number(&again, "unchanged_files"), 3, "{again}");
        tools::assert_equal_trees(&source, &copied);
        verify(&source, &copied).expect(0);
    }

    fn an_older_copy_stays_although_this_run_sets_its_mode(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::plain(&source);
        settle();
        run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
        settle();
        let copy = copied.join("b");
        let time = copy.metadata().unwrap().modified().unwrap();
        overwrite(&copy, 100, b"!");
        let file = File::options().write(true).open(&copy).unwrap();
        file.set_modified(time).unwrap();
        file.set_permissions(Permissions::from_mode(0o600)).unwrap();
        settle();
        verify(&source, &copied).expect(4).saying("remove this copy");
        let kept = copy.metadata().unwrap();
        assert_eq!(kept.mode(), source.join("b").metadata().unwrap().mode(), "this run has set the mode");
        assert_eq!(kept.modified().unwrap(), time);
    }

    fn what_could_not_be_copied_is_no_damage(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, copied) = (other.dir("source"), fs.dir("copied"));
        tree::plain(&source);
        // A directory replaces a file, and a file replaces a directory.
        fs::create_dir(copied.join("b")).unwrap();
        write(copied.join("c"), b"a file");
        let summary = verify(&source, &copied).expect(3).saying("copied/b").saying("copied/c").summary();
        assert_eq!(number(&summary, "damaged"), 0, "{summary}");
        assert!(number(&summary, "verified_files") > 0, "{summary}");
    }

    [xfs] fn a_single_file_under_another_name_is_verified(fs: &Filesystem) {
        let (file, new) = (fs.join("file"), fs.join("new"));
        write(&file, &bytes(1, 3 << 20));
        let summary = verify(&file, &new).expect(0).summary();
        assert_eq!((number(&summary, "verified_files"), number(&summary, "read_bytes")), (1, 6 << 20), "{summary}");
    }

    [xfs] fn there_is_nothing_to_verify_in_a_dry_run(fs: &Filesystem) {
        run([OsStr::new("--verify"), "--dry-run".as_ref(), fs.path().as_ref(), fs.join("x").as_ref()])
            .expect(2);
    }
}
