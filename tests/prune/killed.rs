//! A prune that is killed at any step leaves each snapshot whole or gone, and the next run finishes its work.

use super::{Dated, YEAR_END, past, prune, prune_args, sums};
use crate::harness::*;
use crate::on_filesystems;
use std::fs;
use std::path::Path;
use std::process::Command;

on_filesystems! {
    fn killed_at_any_call_it_leaves_each_snapshot_whole_or_gone(fs: &Filesystem) {
        let steps = [("renameat2", 1), ("renameat2", 2), ("fsync", 1), ("fsync", 2), ("fsync", 3), ("unlinkat", 1),
            ("unlinkat", 4), ("unlinkat", 9), ("ioctl", 3), ("ioctl", 6)];
        let mut killed = 0;
        for (number, (call, nth)) in steps.into_iter().enumerate() {
            let dated = Dated::new(&fs.dir(format!("{number}")), &past(&YEAR_END));
            let run = tools::killed_at(call, nth, &prune_args(&["--keep-last", "2"], &dated.repo));
            killed += u32::from(run.status == 128 + 9);
            let left = listed(&dated.repo);
            dated.expect(&left.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(left.ends_with(&["5".into(), "6".into()]), "{call} {nth}: {left:?}");
            let finished = sums(&prune(&["--keep-last", "2"], &dated.repo).expect(0));
            assert_eq!(finished.removed as usize, left.len() - 2, "{call} {nth}");
            dated.expect(&["5", "6"]);
            assert_no_leftovers(&dated.repo);
        }
        assert!(killed >= 6, "{killed} runs were killed");
    }

    fn killed_while_it_removes_the_newest_latest_leads_to_a_snapshot(fs: &Filesystem) {
        let steps = [("renameat", 1), ("renameat2", 1), ("fsync", 2), ("unlinkat", 2)];
        for (number, (call, nth)) in steps.into_iter().enumerate() {
            let dated = Dated::new(&fs.dir(format!("{number}")), &past(&YEAR_END[..3]));
            let args = ["remove".as_ref(), dated.repo.as_os_str(), "2".as_ref(), "1".as_ref()];
            tools::killed_at(call, nth, &args);
            let left = listed(&dated.repo);
            let latest = fs::read_link(dated.repo.join("latest")).unwrap();
            assert!(left.iter().any(|name| latest == Path::new(name)), "{call} {nth}: {latest:?} of {left:?}");
            // Any run corrects it.
            prune(&["--keep-last", "9"], &dated.repo).expect(0);
            dated.expect(&left.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    [btrfs] fn killed_before_it_moves_a_tree_the_next_run_makes_it_read_only_again(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..2]));
        let tree = dated.repo.join("0");
        // A subvolume with another one in it is deleted entry by entry, which it must be writable for.
        tools::set_read_only(&tree, false);
        finish(Command::new("btrfs").args(["subvolume", "create"]).arg(tree.join("inner"))).expect(0);
        tools::set_read_only(&tree, true);
        let is_read_only = || {
            let mut property = Command::new("btrfs");
            finish(property.args(["property", "get", "-ts"]).arg(&tree).arg("ro")).expect(0).stdout.contains("ro=true")
        };
        assert_eq!(tools::killed_at("renameat2", 1, &prune_args(&["--keep-last", "1"], &dated.repo)).status, 128 + 9);
        assert!(tree.exists() && !is_read_only());
        prune(&["--keep-last", "9"], &dated.repo).expect(0);
        assert!(is_read_only());
        prune(&["--keep-last", "1"], &dated.repo).expect(0);
        assert_eq!(listed(&dated.repo), ["1"]);
        assert_no_leftovers(&dated.repo);
    }

    [xfs, btrfs] fn the_next_snapshot_also_finishes_what_a_killed_run_left(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..4]));
        let call = if fs.kind == Kind::Btrfs { ("fsync", 1) } else { ("unlinkat", 3) };
        tools::killed_at(call.0, call.1, &prune_args(&["--keep-last", "1"], &dated.repo));
        dated.take(7);
        let left = listed(&dated.repo);
        assert_eq!(left[left.len() - 2..], ["3", "7"]);
        assert_no_leftovers(&dated.repo);
        assert_eq!(names(&dated.repo.join(".pleach/manifests")), left);
    }
}
