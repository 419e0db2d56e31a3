//! How files are created: without a name until they are complete, written out meanwhile, synced at the end.

use super::{assert_nothing_unfinished, blocks, copy};
use crate::harness::tools::assert_equal_trees;
use crate::harness::*;
use crate::on_filesystems;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

on_filesystems! {
    fn it_is_synced_before_it_is_reported_as_done(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::plain(&source);
        let calls =
            tools::traced_calls("syncfs,write", &["copy".as_ref(), source.as_ref(), copied.as_ref()], &fs.join("log"));
        let sync = calls.iter().position(|call| call.contains("syncfs(")).expect("it syncs");
        let told = calls.iter().position(|call| call.contains("copied to")).expect("it reports");
        assert!(sync < told, "{calls:#?}");
    }

    fn what_was_made_is_written_out_while_more_is_made(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        for number in 0..1600 {
            write(source.join(number.to_string()), &bytes(number, 48 << 10));
        }
        let args = ["copy".as_ref(), "--engine=buffered".as_ref(), source.as_ref(), copied.as_ref()];
        let calls = tools::traced_calls("syncfs,openat", &args, &fs.join("log"));
        let is_sync = |call: &String| call.contains("syncfs(");
        let first = calls.iter().position(is_sync).expect("it syncs");
        let last_made = calls.iter().rposition(|call| call.contains("O_TMPFILE")).expect("files are made");
        assert!(first < last_made && calls[last_made..].iter().any(is_sync), "{first} {last_made}");
    }

    fn new_files_have_no_name_until_they_are_finished_and_replaced_ones_are_renamed_over(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::plain(&source);
        let calls = || {
            let args = ["copy".as_ref(), "-T".as_ref(), source.as_ref(), copied.as_ref()];
            let calls = tools::traced_calls("linkat,renameat,renameat2,openat", &args, &fs.join("log"));
            let count = |call: &str| calls.iter().filter(|line| line.contains(call)).count();
            (count("O_TMPFILE"), count("linkat("), count("renameat"))
        };
        assert_eq!(calls(), (5, 5, 0));
        write(source.join("a"), b"changed");
        write(source.join("c/d/new"), b"new");
        assert_eq!(calls(), (1, 1, 1));
        assert_equal_trees(&source, &copied);
    }

    fn without_procfs_files_are_made_under_temporary_names(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::plain(&source);
        let script = "umount -l /proc && exec \"$0\" copy \"$1\" \"$2\"";
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_pleach")]);
        finish(unshare.args([&source, &copied])).expect(0);
        assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(&copied);
    }

    fn holes_stay_holes(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        let file = File::create(source.join("sparse")).unwrap();
        for megabyte in [0, 7, 64, 255] {
            file.write_all_at(&bytes(megabyte, 100_000), megabyte << 20).unwrap();
        }
        file.set_len(1 << 30).unwrap();
        let copied = fs.join("copied");
        let summary = copy(&source, &copied);
        assert_equal_trees(&source, &copied);
        assert!(blocks(&copied).abs_diff(blocks(&source)) <= 8 * 16, "{} {}", blocks(&copied), blocks(&source));
        assert!(number(&summary, "hole_bytes") > 1 << 29, "{summary}");
    }
}
