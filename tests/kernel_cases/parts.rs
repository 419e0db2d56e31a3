//! Ranges in the middle of files are shared if all their bytes are equal: not more, and not less.

use super::*;
use crate::dedupe::dedupe_with;
use crate::harness::mounted::Mounted;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// Makes files of eight parts. The first two parts are a hole, and the others have this content.
#[track_caller]
fn eight_parts(dir: &Path, contents: [&[u8]; 2]) -> [PathBuf; 2] {
    let paths = ["a", "b"].map(|name| dir.join(name));
    for (path, content) in paths.iter().zip(contents) {
        let file = File::create_new(path).expect("a file can be made");
        file.write_all_at(content, 2 * PART).expect("a file can be written");
        file.sync_all().expect("a file can be synced");
    }
    paths
}

on_filesystems! {
    // generic/121
    [xfs, btrfs] fn equal_parts_of_two_files_are_shared_and_nothing_around_them(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let content = bytes(1, 6 * PART as usize);
        let [a, b] = eight_parts(&dir, [&content, &content]);
        let before = tools::checksums(&dir);
        assert_eq!(ask((&a, 4 * PART), 2 * PART, (&b, 4 * PART)), Ok(DedupeStatus::Same));
        for part in 0..8 {
            let (first, last) = (part * PART, (part + 1) * PART - BLOCK);
            for at in [first, last] {
                assert_eq!(is_shared((&a, at), (&b, at)), [4, 5].contains(&part), "the block at {at}");
            }
        }
        assert_eq!(sums_on_disk(&dir), before);
        dedupe_with(&["--no-cache"], &dir, 0);
        assert!(tools::assert_same_blocks(&a, &b));
        assert_eq!(sums_on_disk(&dir), before);
    }

    // generic/122
    [xfs, btrfs] fn parts_that_differ_are_not_shared(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let [a, b] = eight_parts(&dir, [&bytes(1, 6 * PART as usize), &bytes(2, 6 * PART as usize)]);
        let layout = || [tools::extents(&a), tools::extents(&b)];
        let before = (tools::checksums(&dir), layout());
        assert_eq!(ask((&a, 4 * PART), 2 * PART, (&b, 4 * PART)), Ok(DedupeStatus::Differs));
        assert_eq!((sums_on_disk(&dir), layout()), before);
        let done = dedupe_with(&EACH_BLOCK, &dir, 0);
        assert_eq!((number(&done, "duplicate_files"), number(&done, "freed_bytes")), (0, 0), "{done}");
        assert_eq!((sums_on_disk(&dir), layout()), before);
    }

    // generic/516
    [xfs, btrfs] fn for_one_byte_that_differs_the_kernel_shares_nothing_and_pleach_the_other_blocks(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let content = bytes(1, 6 * PART as usize);
        let mut changed = content.clone();
        // Near the end of the first of the two parts.
        let differing = 5 * PART - 33;
        changed[(differing - 2 * PART) as usize] ^= 1;
        let [a, b] = eight_parts(&dir, [&content, &changed]);
        let layout = || [tools::extents(&a), tools::extents(&b)];
        let before = (tools::checksums(&dir), layout());
        assert_eq!(ask((&a, 4 * PART), 2 * PART, (&b, 4 * PART)), Ok(DedupeStatus::Differs));
        assert_eq!((sums_on_disk(&dir), layout()), before);
        let done = dedupe_with(&EACH_BLOCK, &dir, 0);
        for (at, is_equal) in [(2 * PART, true), (differing / BLOCK * BLOCK, false), (5 * PART, true)] {
            assert_eq!(is_shared((&a, at), (&b, at)), is_equal, "the block at {at}: {done}");
        }
        assert_eq!(sums_on_disk(&dir), before.0);
    }

    // generic/374
    [xfs, btrfs] fn files_reached_through_two_mounts_of_a_filesystem_are_shared(fs: &Filesystem) {
        let (here, there) = (fs.dir("here"), fs.join("there"));
        let content = bytes(1, PART as usize);
        for name in ["one/file", "two/file", "three/file", "four/file"] {
            let path = here.join(name);
            fs::create_dir(path.parent().expect("a file is in a directory")).expect("a directory can be made");
            write(&path, &content);
        }
        let before = tools::checksums(&here);
        let mount = Mounted::bind(&here, &there);
        assert_eq!(ask((&here.join("one/file"), 0), PART, (&there.join("two/file"), 0)), Ok(DedupeStatus::Same));
        assert!(tools::assert_same_blocks(&here.join("one/file"), &here.join("two/file")));
        settle();
        let (three, four) = (here.join("three"), there.join("four"));
        let args = [OsStr::new("dedupe"), "--json".as_ref(), "--no-cache".as_ref(), three.as_ref(), four.as_ref()];
        let done = pleach(args).expect(0).summary();
        assert_eq!(number(&done, "duplicate_files"), 1, "{done}");
        assert!(tools::assert_same_blocks(&here.join("three/file"), &here.join("four/file")));
        drop(mount);
        assert_eq!(sums_on_disk(&here), before);
    }
}
