//! Filesystems with missing features: bindfs (FUSE) and overlays, without `RENAME_NOREPLACE`, reflinks or unnamed
//! files.

use crate::harness::mounted::Mounted;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

fn has_noreplace(dir: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let (from, to) = (dir.join("from"), dir.join("to"));
    write(&from, b"");
    let moved = renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE).is_ok();
    fs::remove_file(if moved { to } else { from }).unwrap();
    moved
}

/// Takes snapshots into a repository at `at`, and restores everything.
#[track_caller]
fn keeps_snapshots(fs: &Filesystem, at: &Path) {
    let (source, repo) = (fs.dir("source"), at.join("repo"));
    tree::plain(&source);
    fs::hard_link(source.join("a"), source.join("c/linked")).unwrap();
    for name in ["one", "two"] {
        settle();
        pleach(snapshot_named(name, &source, &repo)).expect(0);
        tools::assert_equal_trees(&source, &inside(&repo, name, &source));
        assert_eq!(fs::read_link(repo.join("latest")).unwrap(), Path::new(name));
        assert_no_leftovers(&repo);
    }
    // A used name stays reserved.
    pleach(snapshot_named("one", &source, &repo)).expect(1).saying("choose another name");
    assert_eq!(listed(&repo), ["one", "two"]);
    assert_eq!(published(&repo), ["one", "two"]);
    let target = at.join("restored");
    let args = ["restore".as_ref(), "--target".as_ref(), target.as_os_str(), repo.as_ref(), "latest".as_ref()];
    pleach(args).expect(0);
    tools::assert_equal_trees(&source, &target.join(source.strip_prefix("/").unwrap()));
    let copy = at.join("copy");
    pleach([OsStr::new("copy"), source.as_ref(), copy.as_ref()]).expect(0);
    tools::assert_equal_trees(&source, &copy);
    for content in ["first", "second"] {
        let input = fs.join("input");
        write(&input, content.as_bytes());
        let put = at.join("put");
        finish(command([OsStr::new("put"), put.as_ref()]).stdin(fs::File::open(&input).unwrap())).expect(0);
        assert_eq!(fs::read(&put).unwrap(), content.as_bytes());
    }
    assert_eq!(names(at), ["copy", "put", "repo", "restored"]);
}

on_filesystems! {
    [xfs, ext4] fn a_repository_on_bindfs_is_as_good_as_any(fs: &Filesystem) {
        let test = "foreign::a_repository_on_bindfs_is_as_good_as_any";
        let Some(mounted) = Mounted::bindfs(test, &fs.dir("below"), &fs.dir("mounted")) else { return };
        assert!(!has_noreplace(mounted.path()), "this is what the test is about");
        keeps_snapshots(fs, mounted.path());
    }

    [xfs, ext4] fn a_repository_on_an_overlay_is_as_good_as_any(fs: &Filesystem) {
        let mounted = Mounted::overlay(&fs.join("mounted"), &fs.join("upper"), &fs.join("work"));
        keeps_snapshots(fs, mounted.path());
    }

    [xfs] fn a_file_behind_fuse_that_changed_today_is_read_again(fs: &Filesystem) {
        // The times may come from another machine, as with sshfs.
        let test = "foreign::a_file_behind_fuse_that_changed_today_is_read_again";
        let below = fs.dir("below");
        let Some(mounted) = Mounted::bindfs(test, &below, &fs.dir("mounted")) else { return };
        write(below.join("file"), &bytes(1, 100_000));
        settle();
        let repo = fs.join("repo");
        snapshot(mounted.path(), &repo);
        let summary = snapshot(mounted.path(), &repo);
        assert!(number(&summary, "read_bytes") >= 100_000, "{summary}");
    }

    [xfs] fn a_killed_run_on_bindfs_is_taken_up_by_the_next(fs: &Filesystem) {
        let test = "foreign::a_killed_run_on_bindfs_is_taken_up_by_the_next";
        let Some(mounted) = Mounted::bindfs(test, &fs.dir("below"), &fs.dir("mounted")) else { return };
        let (source, repo) = (fs.dir("source"), mounted.path().join("repo"));
        tree::plain(&source);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        let killed = repo.join(".pleach/partial/two");
        fs::create_dir_all(killed.join("tree/some")).unwrap();
        write(killed.join("finished"), b"not a list");
        settle();
        pleach(snapshot_named("two", &source, &repo)).expect(0);
        assert_no_leftovers(&repo);
        assert_eq!(listed(&repo), ["one", "two"]);
    }

    [xfs] fn what_keeps_a_snapshot_from_being_published_is_found_before_anything_is_copied(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        // The staging area is on another filesystem than the snapshots.
        let other = fs.elsewhere();
        finish(Command::new("cp").arg("-a").arg(repo.join(".pleach")).arg(other.path())).expect(0);
        let mounted = Mounted::bind(&other.join(".pleach"), &repo.join(".pleach"));
        let run = pleach(snapshot_named("two", &source, &repo)).expect(1);
        run.saying("same filesystem").saying("nothing was copied");
        assert_eq!(published(&repo), ["one"]);
        drop(mounted);
        fs::remove_file(repo.join("latest")).unwrap();
        fs::create_dir(repo.join("latest")).unwrap();
        pleach(snapshot_named("two", &source, &repo)).expect(1).saying("latest").saying("nothing was copied");
        fs::remove_dir(repo.join("latest")).unwrap();
        pleach(snapshot_named("two", &source, &repo)).expect(0);
    }
}
