//! Requests that the kernel must refuse, and the files behind them.

use super::*;
use crate::dedupe::{dedupe, dedupe_with};
use crate::harness::swap::Swap;
use crate::on_filesystems;
use rustix::fs::{CWD, FileType, makedev, mknodat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::process::Command;

/// Makes a directory, a device and a named pipe, with their type as the name.
fn others(dir: &Path) {
    fs::create_dir(dir.join("directory")).expect("a directory can be made");
    let mode = Mode::from_raw_mode(0o640);
    let make = |name: &str, kind, device| {
        mknodat(CWD, dir.join(name), kind, mode, device).expect("a node can be made");
    };
    make("device", FileType::CharacterDevice, makedev(1, 3));
    make("pipe", FileType::Fifo, 0);
}

on_filesystems! {
    // generic/158
    [xfs, btrfs] fn requests_that_make_no_sense_are_refused_one_by_one(fs: &Filesystem) {
        let (dir, elsewhere) = (fs.dir("tree"), fs.elsewhere());
        let size = 16 * BLOCK;
        let content = bytes(1, size as usize);
        let [one, two, log, fixed] = ["one", "two", "log", "fixed"].map(|name| dir.join(name));
        let [there, there_too] = ["one", "two"].map(|name| elsewhere.join(name));
        [&one, &two, &log, &fixed, &there, &there_too].into_iter().for_each(|path| write(path, &content));
        others(&dir);
        let [directory, device, pipe] = ["directory", "device", "pipe"].map(|name| dir.join(name));
        for (flag, path) in [("+a", &log), ("+i", &fixed)] {
            finish(Command::new("chattr").arg(flag).arg(path)).expect(0);
        }
        let before = tools::checksums(&dir);
        let only = |errno| Ok(DedupeStatus::Failed(errno));
        let requests: [(&str, Place<'_>, u64, Place<'_>, Answer); 14] = [
            ("another filesystem", (&one, 0), BLOCK, (&there, 0), only(Errno::XDEV)),
            ("unaligned offsets", (&one, 37), 23, (&one, 59), only(Errno::INVAL)),
            ("an unaligned destination", (&one, 0), 2 * BLOCK, (&two, 1), only(Errno::INVAL)),
            ("overlapping ranges", (&one, 0), 2 * BLOCK, (&one, BLOCK), only(Errno::INVAL)),
            ("a source beyond the end", (&one, size + 10 * BLOCK), BLOCK, (&one, 0), Err(Errno::INVAL)),
            ("a destination beyond the end", (&one, 0), BLOCK, (&one, size + 10 * BLOCK), only(Errno::INVAL)),
            ("a destination across the end", (&one, 0), 2 * BLOCK, (&one, size - BLOCK), only(Errno::INVAL)),
            ("from a directory", (&directory, 0), BLOCK, (&two, 0), Err(Errno::ISDIR)),
            ("from a device", (&device, 0), BLOCK, (&two, 0), Err(Errno::INVAL)),
            ("to a directory", (&one, 0), BLOCK, (&directory, 0), only(Errno::ISDIR)),
            ("to a device", (&one, 0), BLOCK, (&device, 0), only(Errno::INVAL)),
            ("to a named pipe", (&one, 0), BLOCK, (&pipe, 0), only(Errno::INVAL)),
            ("to an immutable file", (&one, 0), BLOCK, (&fixed, 0), only(Errno::PERM)),
            ("to an append-only file", (&one, 0), BLOCK, (&log, 0), Ok(DedupeStatus::Same)),
        ];
        for (what, source, length, destination, expected) in requests {
            assert_eq!(ask(source, length, destination), expected, "{what}");
        }
        assert!(!is_shared((&one, 0), (&two, 0)) && is_shared((&one, 0), (&log, 0)));
        assert_eq!(ask((&one, 0), BLOCK, (&two, 0)), Ok(DedupeStatus::Same));
        assert_eq!(ask((&there, 0), BLOCK, (&there_too, 0)), Ok(DedupeStatus::Same));
        assert!(is_shared((&one, 0), (&two, 0)) && is_shared((&there, 0), (&there_too, 0)));
        assert_eq!(sums_on_disk(&dir), before);
    }

    // generic/158
    [xfs, btrfs] fn dedupe_ignores_directories_and_nodes_and_shares_append_only_files(fs: &Filesystem) {
        let dir = fs.dir("tree");
        others(&dir);
        let [one, two, log] = ["one", "two", "directory/log"].map(|name| dir.join(name));
        [&one, &two, &log].into_iter().for_each(|path| write(path, &bytes(1, 100_000)));
        finish(Command::new("chattr").arg("+a").arg(&log)).expect(0);
        let before = tools::checksums(&dir);
        let done = dedupe(&dir);
        assert_eq!((number(&done, "files"), number(&done, "duplicate_files")), (3, 2), "{done}");
        assert!(tools::assert_same_blocks(&one, &two) && tools::assert_same_blocks(&one, &log));
        assert_eq!(sums_on_disk(&dir), before);
    }

    // generic/493
    [xfs, btrfs] fn a_swap_file_in_use_is_neither_source_nor_destination(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let Some(swap) = Swap::begin(fs.kind, &dir, module_path!()) else { return };
        let length = fs::metadata(swap.path()).expect("the file is there").len();
        let (used, copy) = (swap.path(), swap.copy());
        // Where the filesystem refuses such files before the kernel's common part does, the error is another one.
        let expected = if fs.kind == Kind::Btrfs { [Errno::TXTBSY, Errno::INVAL] } else { [Errno::TXTBSY; 2] };
        for (source, destination) in [(used, copy), (copy, used)] {
            let answer = ask((source, 0), length, (destination, 0));
            report(&format!("a swap file on {:?}: {answer:?}", fs.kind));
            let is_refused = expected.iter().any(|errno| answer == Ok(DedupeStatus::Failed(*errno)));
            assert!(is_refused, "{answer:?}");
        }
        let done = dedupe_with(&["--no-cache"], &dir, 0);
        assert_eq!(done["skipped"]["swap_file"].as_u64(), Some(1), "{done}");
        assert!(tools::extents(used).iter().all(|extent| !extent.is_shared()));
        // A clone is refused too, so another engine copies the file.
        let copied = fs.join("copied");
        pleach([OsStr::new("copy"), used.as_ref(), copied.as_ref()]).expect(0);
        assert_eq!(fs::metadata(&copied).expect("the copy is there").len(), length);
    }
}
