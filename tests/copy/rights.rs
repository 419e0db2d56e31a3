//! An ordinary user copies all readable entries, with as much metadata as the user may set.

use crate::harness::*;
use crate::on_filesystems;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// Runs `pleach copy --json` as nobody.
fn as_nobody(from: &Path, to: &Path) -> Run {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        env!("CARGO_BIN_EXE_pleach"),
        "copy",
        "--json",
        "-T",
    ]);
    finish(command.args([from, to]))
}

on_filesystems! {
    fn their_own_tree_is_copied_exactly(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        tree::plain(&source);
        fs::create_dir(source.join("closed")).unwrap();
        write(source.join("closed/file"), &bytes(5, 5000));
        fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
        finish(Command::new("chown").args(["-hR", "65534:65534"]).arg(fs.path())).expect(0);
        let copied = into.join("copied");
        for _ in 0..2 {
            let run = as_nobody(&source, &copied).expect(0);
            assert_eq!(run.stderr, "");
            tools::assert_equal_trees(&source, &copied);
            fs::set_permissions(source.join("a"), fs::Permissions::from_mode(0o604)).unwrap();
            write(source.join("closed/new"), &bytes(6, 5000));
            chown(source.join("closed/new"), Some(65_534), Some(65_534)).unwrap();
        }
    }

    fn of_the_files_of_others_they_get_copies_of_their_own(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        for (number, mode) in [0o644, 0o4755, 0o2755, 0o6755, 0o1644].into_iter().enumerate() {
            let file = source.join(format!("{mode:o}"));
            write(&file, &bytes(number as u64, 5000));
            chown(&file, Some(1000), Some(1000)).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        // A file with one of the user's own groups: the group and the set-group-ID bit can be kept, but not the
        // set-user-ID bit.
        write(source.join("group"), &bytes(9, 5000));
        chown(source.join("group"), Some(1000), Some(65_534)).unwrap();
        fs::set_permissions(source.join("group"), fs::Permissions::from_mode(0o6755)).unwrap();
        chown(&into, Some(65_534), Some(65_534)).unwrap();
        let copied = into.join("copied");
        let run = as_nobody(&source, &copied).expect(0).saying("owner").saying("7 entries").saying("only root");
        let summary = run.summary();
        assert_eq!((number(&summary, "errors"), number(&summary["not_kept"], "owner")), (0, 7), "{summary}");
        assert_eq!(run.stderr.lines().count(), 1, "once, with the count: {}", run.stderr);
        for name in names(&source) {
            let (from, to) = (source.join(&name).metadata().unwrap(), copied.join(&name).metadata().unwrap());
            let mask = if name == "group" { 0o3777 } else { 0o1777 };
            assert_eq!((to.uid(), to.gid(), to.mode() & 0o7777), (65_534, 65_534, from.mode() & mask), "{name}");
            assert_eq!((to.mtime(), to.mtime_nsec()), (from.mtime(), from.mtime_nsec()), "{name}");
        }
        let again = as_nobody(&source, &copied).expect(0).summary();
        assert_eq!(number(&again, "unchanged_files"), 6, "{again}");
    }

    [xfs] fn devices_are_told_and_left_out(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        write(source.join("file"), b"x");
        finish(Command::new("mknod").arg(source.join("null")).args(["c", "1", "3"])).expect(0);
        chown(&into, Some(65_534), Some(65_534)).unwrap();
        as_nobody(&source, &into.join("copied")).expect(3).saying("copied/null").saying("not permitted");
        assert_eq!(names(&into.join("copied")), ["file"]);
    }
}
