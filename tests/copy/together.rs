//! Two copies of one tree to one place, at the same time.

use super::{assert_nothing_unfinished, run};
use crate::harness::tools::assert_equal_trees;
use crate::harness::{Run, bytes, command, settle, write};
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::Stdio;

/// Directories with files, links and additional names.
fn fill(source: &Path, seed: u64) {
    for number in 0..12 {
        let dir = source.join(format!("directory-{number}/deeper/deepest"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..40 {
            write(dir.join(format!("file-{file}")), &bytes(seed + file, 5000 + file as usize));
        }
        write(dir.parent().unwrap().join("large"), &bytes(seed + number, 2 << 20));
        let link = dir.join("link");
        let _ = fs::remove_file(&link);
        symlink(format!("nowhere-{seed}"), link).unwrap();
    }
}

/// Starts two copies, and waits for both.
#[track_caller]
fn copy_twice(source: &Path, copied: &Path) {
    let begin = || {
        let mut copy = command(["copy", "--json", "--no-target-directory"]);
        copy.args([source, copied]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [begin(), begin()];
    for run in both {
        Run::new(run.wait_with_output().unwrap(), "one of two copies".into()).expect(0);
    }
    assert_equal_trees(source, copied);
    assert_nothing_unfinished(copied);
}

on_filesystems! {
    fn both_come_to_their_end(fs: &Filesystem) {
        let other = fs.elsewhere();
        for source in [other.dir("source"), fs.dir("source")] {
            fill(&source, 1);
            for round in 0..3 {
                let copied = fs.join(format!("copied-{round}"));
                let _ = fs::remove_dir_all(&copied);
                copy_twice(&source, &copied);
            }
            // Existing files are replaced too.
            for round in 0..3 {
                fill(&source, 100 + round);
                copy_twice(&source, &fs.join("copied-0"));
            }
        }
    }

    fn further_names_are_those_of_one_inode(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        for number in 0..200 {
            write(source.join(format!("file-{number}")), &bytes(number, 3000));
            fs::hard_link(source.join(format!("file-{number}")), source.join(format!("other-{number}"))).unwrap();
        }
        for round in 0..3 {
            copy_twice(&source, &fs.join(format!("copied-{round}")));
        }
    }

    fn a_first_name_that_another_run_gave_no_time_yet_keeps_its_inode(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.dir("copied"));
        write(source.join("first"), &bytes(1, 5000));
        fs::hard_link(source.join("first"), source.join("second")).unwrap();
        settle();
        write(copied.join("first"), &bytes(1, 5000));
        let made = copied.join("first").metadata().unwrap().ino();
        settle();
        run([OsStr::new("--no-target-directory"), source.as_ref(), copied.as_ref()]).expect(0);
        assert_eq!(copied.join("second").metadata().unwrap().ino(), made);
        assert_equal_trees(&source, &copied);
    }
}
