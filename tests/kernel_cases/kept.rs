//! The metadata of a file stays the same when its data is shared.

use super::*;
use crate::dedupe::dedupe_with;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};

on_filesystems! {
    // generic/408
    [xfs, btrfs] fn the_times_of_change_stay(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let [one, two, three] = ["one", "two", "three"].map(|name| dir.join(name));
        [&one, &two, &three].into_iter().for_each(|path| write(path, &bytes(1, BLOCK as usize)));
        shapes::settle(&dir);
        let times = || {
            [&one, &two, &three].map(|path| {
                let meta = fs::metadata(path).expect("the file is there");
                (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec())
            })
        };
        let before = times();
        settle();
        assert_eq!(ask((&one, 0), BLOCK, (&two, 0)), Ok(DedupeStatus::Same));
        assert!(tools::assert_same_blocks(&one, &two));
        assert_eq!(times(), before);
        dedupe_with(&["--no-cache"], &dir, 0);
        assert!(tools::assert_same_blocks(&one, &three));
        assert_eq!(times(), before);
    }

    // generic/674
    [xfs, btrfs] fn setuid_and_setgid_stay_whoever_dedupes(fs: &Filesystem) {
        let content = bytes(1, 1 << 20);
        for mode in [0o6666, 0o6676, 0o6766, 0o6777] {
            for user in ["root", "anybody"] {
                let dir = fs.dir(format!("{mode:o} {user}"));
                let [one, two] = ["one", "two"].map(|name| dir.join(name));
                for path in [&one, &two] {
                    write(path, &content);
                    // After the write, which takes these bits away.
                    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode can be set");
                }
                shapes::settle(&dir);
                let args = [OsStr::new("dedupe"), "--json".as_ref(), "--no-cache".as_ref(), dir.as_ref()];
                settle();
                let run = match user {
                    "root" => pleach(args),
                    _ => {
                        let mut other = Command::new("setpriv");
                        other.args(["--reuid=12345", "--regid=12345", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
                        finish(other.args(args).env_remove("PLEACH_REPO").stdin(Stdio::null()))
                    }
                };
                let done = run.expect(0).summary();
                assert_eq!(number(&done, "duplicate_files"), 1, "{user}, {mode:o}: {done}");
                assert!(tools::assert_same_blocks(&one, &two));
                for path in [&one, &two] {
                    assert_on_disk(path, &content);
                    let now = fs::metadata(path).expect("the file is there").mode() & 0o7777;
                    assert_eq!(format!("{now:o}"), format!("{mode:o}"), "{user}");
                }
            }
        }
    }
}
