//! The last block of a file, which may be incomplete, and the largest offsets that a file can have.

use super::*;
use crate::dedupe::dedupe_with;
use crate::on_filesystems;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The largest size of a file.
const LARGEST: u64 = i64::MAX as u64;

/// The last byte of a file.
#[track_caller]
fn last_byte(path: &Path) -> u8 {
    tools::forget(path);
    let file = File::open(path).expect("a file can be opened");
    let size = file.metadata().expect("a file has a size").len();
    let mut byte = [0];
    file.read_exact_at(&mut byte, size - 1).expect("a file can be read");
    byte[0]
}

on_filesystems! {
    // generic/136
    [xfs, btrfs] fn incomplete_last_blocks_are_shared_if_both_files_end_there(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let [one, two, three, four] = ["one", "two", "three", "four"].map(|name| dir.join(name));
        for (path, seed) in [(&one, 1), (&two, 1), (&three, 2), (&four, 2)] {
            write(path, &bytes(seed, PART as usize + 37));
        }
        shapes::settle(&dir);
        let (before, third) = (tools::checksums(&dir), tools::extents(&three));
        assert_eq!(ask((&one, PART), 37, (&two, PART)), Ok(DedupeStatus::Same));
        assert_eq!(ask((&one, PART), 37, (&three, PART)), Ok(DedupeStatus::Differs));
        assert!(is_shared((&one, PART), (&two, PART)));
        assert!(!is_shared((&one, PART - BLOCK), (&two, PART - BLOCK)), "only the last block was named");
        assert_eq!(tools::extents(&three), third);
        assert_eq!(sums_on_disk(&dir), before);
        dedupe_with(&["--no-cache"], &dir, 0);
        assert!(tools::assert_same_blocks(&one, &two) && tools::assert_same_blocks(&three, &four));
        assert!(!is_shared((&one, PART), (&three, PART)));
        assert_eq!(sums_on_disk(&dir), before);
    }

    // generic/517
    [xfs, btrfs] fn an_incomplete_last_block_is_never_shared_into_the_middle_of_a_file(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let [middle, short, tiny] = ["middle", "short", "tiny"].map(|name| dir.join(name));
        let content = bytes(1, 12 * PART as usize + 100);
        // Equal to parts of the first file that end in the middle of a block. Behind the end, that block has zeros.
        let (start, length) = (PART as usize, 2 * PART as usize + 100);
        let parts = [&content[start..start + length], &content[10 * PART as usize..][..100]];
        write(&middle, &content);
        write(&short, parts[0]);
        write(&tiny, parts[1]);
        shapes::settle(&dir);
        let tails = || [address((&middle, 3 * PART)), address((&middle, 10 * PART)), address((&short, 2 * PART))];
        let before = tails();
        assert_eq!(ask((&short, 0), length as u64, (&middle, PART)), Ok(DedupeStatus::Same));
        assert_on_disk(&middle, &content);
        assert!(is_shared((&short, 0), (&middle, PART)));
        assert!(is_shared((&short, 2 * PART - BLOCK), (&middle, 3 * PART - BLOCK)), "the last whole block");
        // Nothing is left of this request when its length is rounded down.
        assert_eq!(ask((&tiny, 0), 100, (&middle, 10 * PART)), Ok(DedupeStatus::Same));
        assert_on_disk(&middle, &content);
        assert_eq!(tails(), before, "the blocks where short and tiny end stay where they are");
        dedupe_with(&EACH_BLOCK, &dir, 0);
        assert_on_disk(&middle, &content);
        assert_on_disk(&short, parts[0]);
        assert_on_disk(&tiny, parts[1]);
    }

    // generic/304
    [xfs, btrfs] fn the_largest_offsets_are_refused_or_shared_and_never_wrapped(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let [hole, one, two, low, empty] = ["hole", "one", "two", "low", "empty"].map(|name| dir.join(name));
        let byte_at = |path: &Path, at: u64| {
            let file = File::create_new(path).expect("a file can be made");
            file.write_all_at(b"x", at).expect("a file can be written");
        };
        File::create_new(&hole).and_then(|file| file.set_len(LARGEST)).expect("a file can be all hole");
        byte_at(&one, LARGEST - 1);
        byte_at(&two, LARGEST - 1);
        byte_at(&low, (1 << 20) - 1);
        write(&empty, b"");
        shapes::settle(&dir);
        // The last part ends one byte behind the largest size.
        let top = LARGEST + 1 - PART;
        let for_all: Answer = Err(Errno::INVAL);
        let for_one: Answer = Ok(DedupeStatus::Failed(Errno::INVAL));
        let requests: [(&str, Place<'_>, u64, Place<'_>, Answer); 7] = [
            ("one byte too long", (&one, top), PART, (&two, top), for_all),
            ("into an empty file", (&hole, 0), LARGEST, (&empty, 0), for_one),
            ("beyond the largest size", (&one, 0), LARGEST, (&empty, (1 << 62) - PART), for_one),
            ("from the top", (&one, top), PART - 1, (&empty, 1 << 20), for_one),
            ("beyond the end of the source", (&low, 8 * PART), 16 * PART, (&empty, 0), for_all),
            ("the longest range behind the beginning", (&low, 8 * PART), LARGEST, (&empty, 0), for_all),
            ("a far and long range", (&low, top), top, (&empty, 0), for_all),
        ];
        for (what, source, length, destination, expected) in requests {
            assert_eq!(ask(source, length, destination), expected, "{what}");
        }
        assert_eq!((fs::metadata(&empty).unwrap().len(), fs::metadata(&two).unwrap().len()), (0, LARGEST));
        assert!(!is_shared((&one, LARGEST - 1), (&two, LARGEST - 1)));
        // Both files end here.
        assert_eq!(ask((&one, top), PART - 1, (&two, top)), Ok(DedupeStatus::Same));
        assert!(is_shared((&one, LARGEST - 1), (&two, LARGEST - 1)));
        assert_eq!((last_byte(&one), last_byte(&two)), (b'x', b'x'));
        // These files are nothing but holes, so dedupe skips them.
        let done = dedupe_with(&["--no-cache"], &dir, 0);
        assert_eq!(done["skipped"]["sparse"].as_u64(), Some(3), "{done}");
        let copied = fs.join("copied");
        let run = pleach([OsStr::new("copy"), one.as_ref(), copied.as_ref()]).expect(0);
        assert_eq!(fs::metadata(&copied).unwrap().len(), LARGEST, "{}", run.stderr);
        assert_eq!(last_byte(&copied), b'x');
        assert!(is_shared((&one, LARGEST - 1), (&copied, LARGEST - 1)));
    }
}
