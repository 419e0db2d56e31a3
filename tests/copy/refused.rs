//! Entries that cannot be copied: a clear message, the right exit status, and nothing half done.

use super::{assert_nothing_unfinished, copy, run};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A file that only root may read, such a directory, and a file that anybody may read.
fn closed(dir: &Path) {
    for name in ["closed", "open", "sub/closed", "shut/file"] {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, &bytes(1, 5000));
    }
    for name in ["closed", "sub/closed", "shut"] {
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
}

on_filesystems! {
    fn what_cannot_be_read_is_told_and_the_rest_copied(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        closed(&source);
        let args = [OsStr::new("copy"), "--json".as_ref(), source.as_ref(), into.as_ref()];
        let run = finish(&mut command_bound_by_permissions(args)).expect(3);
        let summary = run.summary();
        assert_eq!((number(&summary, "files"), number(&summary, "errors")), (1, 3), "{summary}");
        let run =
            run.saying("source/closed").saying("source/sub/closed").saying("source/shut").saying("Permission denied");
        assert_eq!(run.stderr.lines().count(), 3, "{}", run.stderr);
        assert_eq!(fs::read(into.join("source/open")).unwrap(), bytes(1, 5000));
        assert_nothing_unfinished(&into);
        // A single source, and nothing of it was copied.
        let closed = source.join("closed");
        let args = [OsStr::new("copy"), closed.as_ref(), into.as_ref()];
        let run =
            finish(&mut command_bound_by_permissions(args)).expect(1).saying("source/closed: Permission denied\n");
        assert!(run.stdout.starts_with("nothing was copied to "), "{}", run.stdout);
    }

    [xfs] fn a_source_that_is_not_there_is_told_before_anything_is_done(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        run([&source, &fs.join("no such file"), &into]).expect(1).saying("no such file").saying("nothing was copied");
        assert_eq!(names(&into), [""; 0]);
        let missing = run([&source, &fs.join("no/such/dir")])
            .expect(1)
            .saying("no/such")
            .saying("No such file")
            .saying("create it first");
        assert!(!missing.stderr.contains("run the same command again"), "{}", missing.stderr);
        write(fs.join("file"), b"x");
        run([fs.join("file/"), into]).expect(1).saying("Not a directory");
    }

    [xfs] fn a_directory_that_may_not_be_written_to_is_told(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        tree::plain(&source);
        finish(Command::new("chattr").arg("+i").arg(&into)).expect(0);
        let ended = run([&source, &into]);
        finish(Command::new("chattr").arg("-i").arg(&into)).expect(0);
        ended.expect(1).saying("into/source").saying("lsattr");
        assert_eq!(names(&into), [""; 0]);
    }

    [xfs_small] fn a_full_disk_ends_it_with_each_finished_file_whole(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, into) = (other.dir("source"), fs.dir("into"));
        for number in 0..8 {
            write(source.join(format!("large {number}")), &bytes(number, 40 << 20));
        }
        tree::crowded(&source, 200);
        run([&source, &into]).expect(1).saying("into/source/").saying("No space left").saying("free some space");
        assert_nothing_unfinished(&into);
        let copied = tools::files(&into);
        assert!(!copied.is_empty(), "what had room is there");
        for file in &copied {
            let original = source.join(file.strip_prefix(into.join("source")).unwrap());
            assert_eq!(fs::read(file).unwrap(), fs::read(original).unwrap(), "{}", file.display());
        }
        // With less to copy, the run continues where it stopped.
        for number in 3..8 {
            fs::remove_file(source.join(format!("large {number}"))).unwrap();
            let _ = fs::remove_file(into.join(format!("source/large {number}")));
        }
        let left = tools::files(&into).len() as u64;
        let summary = copy(&source, &into);
        assert_eq!(number(&summary, "unchanged_files"), left, "{summary}");
        tools::assert_equal_trees(&source, &into.join("source"));
    }

    [xfs_small] fn a_full_disk_ends_a_group_of_small_files_in_the_same_way(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        for number in 0..400 {
            write(source.join(format!("{number:03}")), &bytes(number, 100 << 10));
        }
        let filler = fs::File::create(fs.join("filler")).unwrap();
        let most = disk_space::free_bytes(fs.path()) - (24 << 20);
        rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, most).unwrap();
        for engine in ["auto", "uring", "mmap"] {
            let into = fs.dir(engine);
            let args = [OsStr::new("--engine"), engine.as_ref(), source.as_ref(), into.as_ref()];
            let ended = run(args).expect(1).saying("No space left").saying("source/");
            assert_eq!(ended.stderr.lines().count(), 1, "once: {}", ended.stderr);
            assert_nothing_unfinished(&into);
            let copied = tools::files(&into);
            assert!((10..400).contains(&copied.len()), "{} by {engine}", copied.len());
            for file in &copied {
                let original = source.join(file.file_name().unwrap());
                assert!(fs::read(file).unwrap() == fs::read(original).unwrap(), "{}", file.display());
            }
            fs::remove_dir_all(into).unwrap();
        }
    }

    [btrfs] fn what_the_destination_does_not_take_is_told_once_and_counted(fs: &Filesystem) {
        let (other, source) = (fs.elsewhere(), fs.dir("source"));
        for number in 0..30 {
            let file = source.join(format!("file {number}"));
            write(&file, b"");
            if number < 20 {
                finish(Command::new("chattr").arg("+C").arg(&file)).expect(0);
            }
            write(&file, &bytes(number, 3000));
        }
        let copied = other.join("copied");
        let run = run([&source, &copied]).expect(3).saying("chattr flags").saying("19 more");
        let summary = run.summary();
        assert_eq!((number(&summary, "errors"), number(&summary["not_kept"], "flags")), (20, 20), "{summary}");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert_eq!(tools::files(&copied).len(), 30);
    }

    [btrfs] fn files_written_in_place_are_copied_as_such(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        finish(Command::new("chattr").arg("+C").arg(&source)).expect(0);
        write(source.join("database"), &bytes(1, 1 << 20));
        let summary = copy(&source, &copied);
        assert_eq!(number(&summary, "cloned_bytes"), 1 << 20, "{summary}");
        let flags = tools::tool("lsattr", &["-d"], &copied.join("database")).stdout;
        assert!(flags.contains('C'), "{flags}");
        tools::assert_equal_trees(&source, &copied);
    }
}
