//! How the trees of removed snapshots are deleted: where they are, and never across a mount.

use super::{prune, prune_args, sums};
use crate::harness::mounted::Mounted;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::process::Command;

on_filesystems! {
    [xfs, ext4] fn the_directories_of_a_tree_are_deleted_where_they_are(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for number in 0..300_u64 {
            let dir = source.join(format!("{}/{number}/deep", number % 7));
            fs::create_dir_all(&dir).unwrap();
            write(dir.join("file"), &bytes(number, 5000));
        }
        for name in ["s0", "s1", "s2"] {
            pleach(snapshot_named(name, &source, &repo)).expect(0);
        }
        let args = prune_args(&["--keep-last", "1"], &repo);
        let calls = tools::traced_calls("renameat,renameat2", &args, &fs.join("log"));
        let of_trees = calls.iter().filter(|line| line.contains("/.pleach/trash/")).count();
        assert_eq!(of_trees, 0, "{calls:#?}");
        assert_eq!(listed(&repo), ["s2"]);
        assert_no_leftovers(&repo);
        tools::assert_equal_trees(&source, &inside(&repo, "s2", &source));
    }

    [btrfs] fn without_a_wait_the_snapshots_are_gone_and_the_space_follows(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for name in ["s0", "s1", "s2"] {
            write(source.join("file"), &bytes(name.len() as u64, 1 << 20));
            pleach(snapshot_named(name, &source, &repo)).expect(0);
        }
        let run = prune(&["--keep-last", "2", "--no-wait"], &repo).expect(0);
        assert_eq!((sums(&run).removed, sums(&run).freed_is.as_str()), (1, "at_least"));
        assert_eq!(listed(&repo), ["s1", "s2"]);
        assert_no_leftovers(&repo);
        let words = [OsStr::new("remove"), "--no-wait".as_ref(), repo.as_ref(), "s1".as_ref()];
        assert!(pleach(words).expect(0).stdout.contains("so far; the filesystem is still freeing space"));
        prune(&["--keep-free", "1", "--no-wait"], &repo).expect(2);
        assert_eq!(listed(&repo), ["s2"]);
    }

    fn a_name_that_is_listed_but_never_found_does_not_keep_a_run_from_its_end(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), b"text");
        for name in ["s0", "s1"] {
            pleach(snapshot_named(name, &source, &repo)).expect(0);
        }
        let trash = repo.join(".pleach/trash");
        fs::create_dir_all(trash.join("tree")).unwrap();
        write(trash.join("phantom"), b"old");
        write(trash.join("tree/phantom"), b"old");
        // As on a damaged filesystem.
        let not_found = "inject=unlinkat:error=ENOENT";
        let mut run = Command::new("timeout");
        run.args(["-s", "KILL", "60", "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=unlinkat"]);
        run.args(["-e", not_found, "-P", "phantom", env!("CARGO_BIN_EXE_pleach")]);
        let run = finish(run.args(prune_args(&["--keep-last", "1"], &repo))).expect(3);
        assert!(run.stderr.contains("trash/phantom") && run.stderr.contains("trash/tree"), "{}", run.stderr);
        assert_eq!(listed(&repo), ["s1"]);
        prune(&["--keep-last", "1"], &repo).expect(0);
        assert_no_leftovers(&repo);
    }

    fn a_tree_in_the_trash_with_a_mount_in_it_is_kept_and_the_rest_goes(fs: &Filesystem) {
        let (source, repo, outside) = (fs.dir("source"), fs.join("repo"), fs.dir("outside"));
        write(source.join("file"), b"text");
        write(outside.join("own"), b"somebody's");
        for name in ["s0", "s1"] {
            pleach(snapshot_named(name, &source, &repo)).expect(0);
        }
        // As a killed run leaves them.
        let trash = repo.join(".pleach/trash");
        for name in ["a", "b"] {
            fs::create_dir_all(trash.join(name).join("x/y/point")).unwrap();
            write(trash.join(name).join("x/y/file"), b"old");
        }
        let mounted = Mounted::bind(&outside, &trash.join("b/x/y/point"));
        let run = prune(&["--keep-last", "1"], &repo).expect(3);
        assert!(run.stderr.contains("is mounted there, so all of it was kept"), "{}", run.stderr);
        assert_eq!(sums(&run).removed, 1);
        assert_eq!(names(&trash), ["b"]);
        assert!(trash.join("b/x/y/file").exists());
        drop(mounted);
        assert_eq!(fs::read(outside.join("own")).unwrap(), b"somebody's");
        prune(&["--keep-last", "1"], &repo).expect(0);
        assert_no_leftovers(&repo);
    }
}
