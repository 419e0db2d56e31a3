//! Power cuts: whatever the first run left, the next run ends with the content of the source.

use super::{assert_nothing_unfinished, run};
use crate::harness::own::Own;
use crate::harness::power::Shutdown::{self, AtOnce, LogWritten};
use crate::harness::power::cut_during;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

fn named(dir: &Path) -> usize {
    let names = if dir.exists() { names(dir) } else { Vec::new() };
    names.iter().filter(|name| name.starts_with("file-")).count()
}

/// Copies until a condition is met, then cuts the power and mounts the filesystem again.
fn copy_and_cut(own: &mut Own, source: &Path, copied: &Path, how: Shutdown, until: &dyn Fn() -> bool) {
    cut_during(own, command(["copy", "-q", "-T"]).args([source, copied]), how, until);
}

/// Asserts that a file which looks like its source equals it, and that the next run completes the copy.
#[track_caller]
fn assert_next_run_completes(own: &mut Own, source: &Path, copied: &Path) {
    for file in if copied.exists() { tools::files(copied) } else { Vec::new() } {
        let Ok(original) = source.join(file.strip_prefix(copied).unwrap()).metadata() else { continue };
        let copy = file.metadata().unwrap();
        if (copy.len(), copy.modified().unwrap()) == (original.len(), original.modified().unwrap()) {
            let name = source.join(file.strip_prefix(copied).unwrap());
            assert!(fs::read(&file).unwrap() == fs::read(name).unwrap(), "{} only looks whole", file.display());
        }
    }
    run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
    own.remount();
    tools::assert_equal_trees(source, copied);
    assert_nothing_unfinished(copied);
}

on_filesystems! {
    [xfs, ext4] fn after_a_power_cut_the_next_run_copies_what_was_not_on_the_disk(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        for number in 0..60 {
            write(source.join(format!("file-{number}")), &bytes(number, 1 << 20));
        }
        for (how, count) in [(LogWritten, 5), (LogWritten, 20), (LogWritten, 59), (AtOnce, 10), (AtOnce, 50)] {
            let Some(mut own) = Own::new(fs.kind, "copy::power_cut", 512, &[], "") else { return };
            let copied = own.join("copied");
            copy_and_cut(&mut own, &source, &copied, how, &|| named(&copied) >= count);
            assert_next_run_completes(&mut own, &source, &copied);
            own.assert_clean();
        }
    }

    [xfs, ext4] fn a_replaced_file_is_the_old_or_the_new_one_after_a_power_cut(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        for number in 0..40 {
            write(source.join(format!("file-{number}")), &bytes(number, 1 << 20));
        }
        fs::hard_link(source.join("file-3"), source.join("linked")).unwrap();
        for (how, count) in [(LogWritten, 1), (LogWritten, 30), (AtOnce, 20)] {
            let Some(mut own) = Own::new(fs.kind, "copy::power_cut", 512, &[], "") else { return };
            let copied = own.join("copied");
            fs::create_dir(&copied).unwrap();
            for number in 0..40 {
                write(copied.join(format!("file-{number}")), &bytes(100 + number, 5000));
            }
            write(copied.join("linked"), b"old");
            rustix::fs::syncfs(fs::File::open(&copied).unwrap()).unwrap();
            let temporary = || names(&copied).iter().filter(|name| name.starts_with(".pleach-copy.")).count();
            let replaced =
                || tools::files(&copied).iter().any(|file| file.metadata().is_ok_and(|meta| meta.len() == 1 << 20));
            copy_and_cut(&mut own, &source, &copied, how, &|| temporary() >= count || replaced());
            for number in 0..40 {
                let name = format!("file-{number}");
                let (now, old) = (fs::read(copied.join(&name)).unwrap(), bytes(100 + number, 5000));
                assert!(now == old || now == bytes(number, 1 << 20), "{name} is neither the old nor the new one");
            }
            assert_next_run_completes(&mut own, &source, &copied);
            own.assert_clean();
        }
    }

    fn what_replaces_and_what_follows_from_it_comes_in_its_order(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, copied) = (other.dir("source"), fs.dir("copied"));
        for dir in ["one", "two"] {
            fs::create_dir(source.join(dir)).unwrap();
            fs::create_dir(copied.join(dir)).unwrap();
            for name in ["a", "b", "c"] {
                write(source.join(dir).join(name), &bytes(7, 9000));
                write(copied.join(dir).join(name), b"old");
            }
        }
        // One inode with names in both directories, which replace others; an immutable file; one with a new name.
        fs::remove_file(source.join("two/b")).unwrap();
        fs::hard_link(source.join("one/b"), source.join("two/b")).unwrap();
        fs::hard_link(source.join("one/b"), source.join("two/new")).unwrap();
        fs::hard_link(source.join("one/c"), source.join("two/d")).unwrap();
        for name in ["one/a", "two/d"] {
            finish(Command::new("chattr").arg("+i").arg(source.join(name))).expect(0);
        }
        let summary = run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0).summary();
        assert_eq!(number(&summary, "errors"), 0, "{summary}");
        tools::assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(&copied);
        for name in ["one/a", "one/c"] {
            let flags = tools::tool("lsattr", &[], &copied.join(name)).stdout;
            assert!(flags.split_whitespace().next().unwrap().contains('i'), "{flags}");
        }
        let again = run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0).summary();
        assert_eq!(number(&again, "unchanged_files"), number(&again, "files"), "{again}");
        for dir in [&source, &copied] {
            finish(Command::new("chattr").args(["-R", "-i"]).arg(dir)).expect(0);
        }
    }

    fn a_second_source_replaces_what_the_first_one_brought(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (one, two, copied) = (other.dir("one"), other.dir("two"), fs.dir("copied"));
        write(copied.join("file"), &bytes(2, 9000));
        write(one.join("file"), &bytes(1, 9000));
        settle();
        write(two.join("file"), &bytes(2, 9000));
        // With its state from before the run, it looks like the file in the second source.
        let time = copied.join("file").metadata().unwrap().modified().unwrap();
        fs::File::options().write(true).open(two.join("file")).unwrap().set_modified(time).unwrap();
        run([one.join("."), two.join("."), copied.clone()]).expect(0);
        tools::assert_equal_trees(&two, &copied);
    }

    fn few_descriptors_are_enough(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, copied) = (other.dir("source"), fs.dir("copied"));
        tree::crowded(&source, 300);
        for number in 0..50 {
            write(copied.join(format!("replaced-{number}")), b"old");
            write(source.join(format!("replaced-{number}")), &bytes(number, 20_000));
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 128 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pleach")]);
        finish(shell.args(["copy", "-T", "-j", "1"]).args([&source, &copied])).expect(0);
        tools::assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(&copied);
    }

    [xfs, ext4] fn a_file_as_young_as_its_copy_gets_another_time_until_its_data_is_on_the_disk(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, log) = (other.dir("source"), fs.join("log"));
        let copied = fs.join("copied");
        write(source.join("young"), &bytes(1, 9000));
        let args = [OsStr::new("copy"), "-T".as_ref(), source.as_ref(), copied.as_ref()];
        let calls = tools::traced_calls("utimensat,syncfs,linkat,renameat,renameat2", &args, &log);
        let at = |text: &str| {
            calls.iter().position(|call| call.contains(text)).unwrap_or_else(|| panic!("{text}: {calls:#?}"))
        };
        let last = |text: &str| calls.iter().rposition(|call| call.contains(text)).unwrap();
        assert!(at("utimensat") < at("linkat") && at("linkat") < at("syncfs"), "{calls:#?}");
        assert!(last("syncfs") > last("utimensat"), "{calls:#?}");
        assert!(
            calls.iter().filter(|call| call.starts_with("utimensat") && call.contains("young")).count() >= 1,
            "{calls:#?}"
        );
        tools::assert_equal_trees(&source, &copied);
    }
}
