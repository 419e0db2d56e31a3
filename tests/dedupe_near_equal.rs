//! `pleach dedupe` with files that look equal by their samples, and differ.

use crate::dedupe::{assert_shared, clone, dedupe};
use crate::harness::*;
use crate::on_filesystems;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const SIZE: usize = 2 << 20;

/// The content of a file of this kind. The difference is where no sample is taken, so only a comparison finds it.
fn near_equal(kind: usize) -> Vec<u8> {
    let mut content = bytes(8, SIZE);
    content[100_000 + kind] ^= 0xff;
    content
}

on_filesystems! {
    [xfs, btrfs] fn many_near_equal_files_are_read_twice_and_not_each_against_each(fs: &Filesystem) {
        let dir = fs.dir("tree");
        for number in 0..20 {
            write(dir.join(format!("{number:02}")), &near_equal(number / 2));
        }
        let done = dedupe(&dir);
        assert_eq!(number(&done, "duplicate_files"), 10, "{done}");
        let read = number(&done, "read_bytes");
        assert!(read <= 4 * 20 * SIZE as u64, "{read} bytes read for {} of data", 20 * SIZE);
        for number in 0..10 {
            assert_shared(&dir.join(format!("{:02}", number * 2)), &dir.join(format!("{:02}", number * 2 + 1)));
        }
        let again = dedupe(&dir);
        assert_eq!((number(&again, "read_bytes"), number(&again, "submitted_bytes")), (0, 0), "{again}");
        // A new file finds its equals, and the others are not read again for it.
        clone(&dir.join("05"), &dir.join("known"));
        write(dir.join("new"), &near_equal(3));
        let third = dedupe(&dir);
        assert_eq!(number(&third, "duplicate_files"), 1, "{third}");
        assert_shared(&dir.join("06"), &dir.join("new"));
        assert!(number(&third, "read_bytes") < 8 * SIZE as u64, "{third}");
    }

    [xfs, btrfs] fn a_hash_is_not_read_again_where_another_file_of_that_place_has_it(fs: &Filesystem) {
        let dir = fs.dir("tree");
        for number in 0..6 {
            let content = near_equal(number / 2);
            let file = File::create(dir.join(format!("{number}"))).expect("a file can be made");
            // More extents for the first file of each pair, so that the other is the source and has the hash.
            let start = if number % 2 == 0 { SIZE / 2 } else { 0 };
            for part in [start..SIZE, 0..start] {
                file.write_all_at(&content[part.clone()], part.start as u64).expect("a file can be written");
                file.sync_all().expect("a file can be synced");
            }
        }
        assert_eq!(number(&dedupe(&dir), "duplicate_files"), 3);
        let again = dedupe(&dir);
        assert_eq!((number(&again, "read_bytes"), number(&again, "submitted_bytes")), (0, 0), "{again}");
    }
}
