//! The space that a prune frees, and a prune without any space.

use super::{kept, more_space, prune, sums};
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A filesystem of the test's own.
fn own(fs: &Filesystem, mebibytes: u64) -> Option<Own> {
    Own::new(fs.kind, "prune::own", mebibytes, &[], "")
}

/// A repository with snapshots of a source with one file of this size, another one for each. They are s0, s1 and so on.
fn snapshots(own: &Own, number: u64, size: usize) -> PathBuf {
    let (source, repo) = (own.join("source"), own.join("repo"));
    fs::create_dir(&source).unwrap();
    for number in 0..number {
        write(source.join("new"), &bytes(number, size));
        settle();
        pleach(snapshot_named(&format!("s{number}"), &source, &repo)).expect(0);
    }
    repo
}

on_filesystems! {
    [xfs, btrfs] fn a_dry_run_foretells_what_df_shows(fs: &Filesystem) {
        let Some(mut own) = own(fs, 1024) else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        tree::crowded(&source, 600);
        write(source.join("stays"), &bytes(1, 8 << 20));
        for number in 0..6_u64 {
            // Most of a file changes each time, and a file is new and then gone.
            overwrite(&source.join("stays"), 0, &bytes(number + 10, 6 << 20));
            let _ = fs::remove_file(source.join("comes and goes"));
            write(source.join("comes and goes"), &bytes(number + 20, 15 << 20));
            settle();
            pleach(snapshot_named(&format!("s{number}"), &source, &repo)).expect(0);
        }
        fs::remove_file(source.join("comes and goes")).unwrap();
        let before = own.used();
        let foretold = sums(&prune(&["--keep-last", "2", "--dry-run"], &repo).expect(0));
        let bound = if fs.kind == Kind::Xfs { "exact" } else { "about" };
        assert_eq!((foretold.freed_from.as_str(), foretold.freed_is.as_str()), ("extents", bound));
        assert_eq!(own.used(), before, "a dry run frees nothing");
        let reported = sums(&prune(&["--keep-last", "2"], &repo).expect(0));
        let freed = before - own.used();
        let difference = |figure: u64| figure.abs_diff(freed);
        let allowed = if fs.kind == Kind::Xfs { 0 } else { freed / 50 };
        assert!(freed > 25 << 20, "{freed}");
        assert!(difference(foretold.freed_bytes) <= allowed, "foretold {}, freed {freed}", foretold.freed_bytes);
        assert!(difference(reported.freed_bytes) <= freed / 50, "reported {}, freed {freed}", reported.freed_bytes);
        own.assert_clean();
    }

    fn it_works_on_a_full_filesystem(fs: &Filesystem) {
        let Some(own) = own(fs, 400) else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        tree::crowded(&source, 200);
        for number in 0..24_u64 {
            write(source.join("new"), &bytes(number, 1 << 20));
            settle();
            pleach(snapshot_named(&format!("s{number:02}"), &source, &repo)).expect(0);
        }
        fill(own.path());
        let run = prune(&["--keep-last", "2"], &repo).expect(0);
        assert_eq!((sums(&run).removed, sums(&run).errors), (22, 0));
        assert_eq!(listed(&repo), ["s22", "s23"]);
        tools::assert_equal_trees(&source, &inside(&repo, "s23", &source));
        assert_no_leftovers(&repo);
        // XFS may keep the few blocks that this frees for itself. Then there is no space for a link, and no link.
        fill(own.path());
        let run = pleach([OsStr::new("remove"), repo.as_ref(), "latest".as_ref()]);
        assert!([0, 3].contains(&run.status), "{run:?}");
        let latest = fs::read_link(repo.join("latest")).ok();
        let expected = (run.status == 0).then(|| Path::new("s22").to_path_buf());
        assert_eq!(latest, expected);
        finish(std::process::Command::new("find").arg(own.path()).args(["-name", "fill-*", "-delete"])).expect(0);
        assert_eq!(sums(&prune(&["--keep-last", "9"], &repo).expect(0)).kept, 1);
        assert_eq!(fs::read_link(repo.join("latest")).unwrap(), Path::new("s22"));
        own.assert_clean();
    }

    [xfs, btrfs] fn the_oldest_go_until_enough_space_is_free(fs: &Filesystem) {
        let Some(own) = own(fs, 512) else { return };
        let repo = snapshots(&own, 6, 10 << 20);
        let wanted = more_space(own.path(), 15 << 20);
        let options = ["--keep-free", &wanted, "--keep-last", "1"];
        let foretold = prune(&[&options[..], &["--dry-run"]].concat(), &repo).expect(0);
        let run = prune(&options, &repo).expect(0);
        let expected = [("s2", "free"), ("s3", "free"), ("s4", "free"), ("s5", "last")];
        let expected = expected.map(|(name, reason)| (name.to_string(), vec![reason.to_string()]));
        assert_eq!((kept(&foretold), kept(&run)), (expected.to_vec(), expected.to_vec()));
        let summary = foretold.summary();
        let bound = if fs.kind == Kind::Xfs { "exact" } else { "about" };
        assert_eq!((&summary["removed"], &summary["removed_is"]), (&2.into(), &bound.into()));
        let mut shown = [OsStr::new("prune"), "--dry-run".as_ref(), repo.as_ref(), "--keep-free".as_ref()].to_vec();
        let too_much = "99.9%";
        shown.push(OsStr::new(too_much));
        let shown = pleach(shown).expect(3).saying("cannot free enough space in").saying("the rules keep all other");
        let words = if fs.kind == Kind::Xfs { "changed: 3 snap" } else { "changed: about 3 snap" };
        assert!(shown.stdout.contains(words), "{}", shown.stdout);
        assert_eq!(published(&repo).len(), 4, "nothing was removed");
        let again = prune(&["--keep-free", "1%"], &repo).expect(0);
        assert_eq!(sums(&again).removed, 0, "there is enough space");
    }

    // XFS frees the extents of a deleted file in the background.
    [xfs] fn no_snapshot_goes_for_space_that_is_just_being_freed(fs: &Filesystem) {
        let Some(own) = own(fs, 512) else { return };
        let repo = snapshots(&own, 3, 4 << 20);
        let large = own.join("large");
        shapes::scattered(&large, 30_000);
        disk_space::await_still(own.path());
        // Most of the file, of 30,000 blocks of 4 KiB.
        let wanted = more_space(own.path(), 110 << 20);
        fs::remove_file(&large).unwrap();
        assert_eq!(sums(&prune(&["--keep-free", &wanted], &repo).expect(0)).removed, 0);
        assert_eq!(listed(&repo), ["s0", "s1", "s2"]);
    }
}

/// Fills a filesystem until not even a small file fits.
fn fill(dir: &Path) {
    for size in [1 << 20, 64 << 10, 4096, 512] {
        for number in 0.. {
            let path = dir.join(format!("fill-{size}-{number}"));
            let Ok(mut file) = File::create(&path) else { break };
            let chunk = bytes(number, size);
            let written = (0..1024).try_for_each(|_| file.write_all(&chunk));
            if written.and_then(|()| file.sync_all()).is_err() {
                break;
            }
        }
    }
}
