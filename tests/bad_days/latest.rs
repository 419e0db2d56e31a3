//! No space for the link `latest`.

use super::behind;
use crate::harness::*;
use crate::on_filesystems;
use std::fs;

on_filesystems! {
    fn without_space_for_the_link_latest_no_snapshot_is_made(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        settle();
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=symlinkat"];
        let strace = [&strace[..], &["-e", "inject=symlinkat:error=ENOSPC"]].concat();
        behind(&strace, &snapshot_named("two", &source, &repo)).expect(1).saying("latest").saying("no space");
        assert_eq!((listed(&repo), published(&repo)), (vec!["one".to_string()], vec!["one".to_string()]));
        // The name is not used up.
        pleach(snapshot_named("two", &source, &repo)).expect(0);
        assert_eq!(fs::read_link(repo.join("latest")).unwrap().to_str(), Some("two"));
        tools::assert_equal_trees(&source, &inside(&repo, "two", &source));
        assert_no_leftovers(&repo);
    }

    [xfs] fn a_snapshot_is_complete_if_only_the_link_cannot_be_moved(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        settle();
        // The manifest is moved first, the link next.
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat"];
        let strace = [&strace[..], &["-e", "inject=renameat:error=EIO:when=2"]].concat();
        behind(&strace, &snapshot_named("two", &source, &repo)).expect(3).saying("the snapshot two is complete");
        assert_eq!(listed(&repo), ["one", "two"]);
        pleach(["verify".as_ref(), repo.as_os_str()]).expect(0);
        pleach(snapshot_named("three", &source, &repo)).expect(0);
        assert_eq!(fs::read_link(repo.join("latest")).unwrap().to_str(), Some("three"));
        assert_no_leftovers(&repo);
    }
}
