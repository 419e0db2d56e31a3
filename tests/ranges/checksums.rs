//! Ranges that root finds by Btrfs's checksums: only data that is shared, or has no checksums, is read.

use super::*;

const MIB: usize = 1 << 20;

/// A test on a Btrfs of its own, made with these arguments and mounted with these options.
fn on_btrfs(test: &str, mkfs: &[&str], options: &str, body: impl FnOnce(&mut Own, &Path)) {
    let test = format!("{}::{test}", module_path!());
    let Some(mut own) = Own::new(Kind::Btrfs, &test, 768, mkfs, options) else { return };
    let dir = own.join("tree");
    fs::create_dir(&dir).expect("a directory can be made");
    body(&mut own, &dir);
    own.assert_clean();
}

/// The number of bytes that a run reads from the disk if nothing is in memory.
#[track_caller]
fn bytes_from_disk(own: &mut Own, dir: &Path) -> usize {
    own.remount();
    let before = own.bytes_read();
    dedupe(&[], dir);
    (own.bytes_read() - before) as usize
}

#[test]
fn unique_data_is_not_read() {
    on_btrfs("unique_data_is_not_read", &[], "", |own, dir| {
        for (number, size) in (0..).zip([64, 64, 80]) {
            write(dir.join(number.to_string()), &bytes(number, size * MIB));
        }
        let read = bytes_from_disk(own, dir);
        assert!(read < 4 * MIB, "{read}");
        let done = dedupe(&[], dir);
        assert!(number(&done, "read_bytes") < MIB as u64, "{done}");
        assert_eq!(done["ranges"], "compared");
    });
}

#[test]
fn only_shared_data_and_what_must_move_is_read() {
    on_btrfs("only_shared_data_and_what_must_move_is_read", &[], "", |own, dir| {
        images(dir, 24 * MIB, 18 * MIB);
        write(dir.join("unique"), &bytes(77, 100 * MIB));
        // Both sides of each run, the rest of one image, and a little for samples and metadata.
        let most = (2 * 18 + 6 + 3) * MIB;
        // Nothing is on the disk yet: the addresses are known when the files are.
        let planned = dedupe(&["--dry-run"], dir);
        assert!(number(&planned, "range_bytes") >= 18 * MIB as u64 / 1000 * 999, "{planned}");
        assert!((36 * MIB as u64..=most as u64).contains(&number(&planned, "read_bytes")), "{planned}");
        let (before, content) = (used(own), seen(dir));
        let read = bytes_from_disk(own, dir);
        assert!(read >= 2 * 18 * MIB && read <= most, "{read}");
        assert_eq!(before - used(own), number(&planned, "freed_bytes"));
        assert_eq!(seen(dir), content);
    });
}

#[test]
fn every_kind_of_checksum_finds_equal_data_also_in_compressed_extents() {
    for kind in ["crc32c", "xxhash", "sha256", "blake2"] {
        let test = "every_kind_of_checksum_finds_equal_data_also_in_compressed_extents";
        on_btrfs(test, &["--csum", kind], "", |own, dir| {
            let common = [half_zeros(1, 4 * MIB), vec![9; 1000]].concat();
            tools::write_in_one_extent(&dir.join("plain"), &[bytes(2, MIB), common.clone()].concat());
            tools::write_in_one_extent(&dir.join("plain too"), &[bytes(3, 2 * MIB), common.clone()].concat());
            write(dir.join("unique"), &bytes(4, 48 * MIB));
            write(dir.join("compressed"), b"");
            finish(
                Command::new("btrfs")
                    .args(["property", "set"])
                    .arg(dir.join("compressed"))
                    .args(["compression", "zstd"]),
            )
            .expect(0);
            append(&dir.join("compressed"), &[half_zeros(5, 3 * MIB), common.clone()].concat());
            let (before, content) = (used(own), seen(dir));
            own.remount();
            let done = dedupe(&[], dir);
            assert_eq!(number(&done, "range_bytes"), 2 * common.len() as u64, "{kind}: {done}");
            assert!(number(&done, "read_bytes") < 30 * MIB as u64, "{kind}: {done}");
            assert_freed(&done, before, used(own));
            assert_eq!(seen(dir), content, "{kind}");
        });
    }
}

#[test]
fn data_without_checksums_is_read() {
    on_btrfs("data_without_checksums_is_read", &[], "nodatasum", |own, dir| {
        images(dir, 24 * MIB, 18 * MIB);
        let (before, content) = (used(own), seen(dir));
        own.remount();
        let done = dedupe(&[], dir);
        assert!(number(&done, "read_bytes") >= 48 * MIB as u64, "{done}");
        assert!(assert_freed(&done, before, used(own)) >= 18 * MIB as u64 / 1000 * 999, "{done}");
        assert_eq!(seen(dir), content);
    });
}

#[test]
fn root_without_the_right_to_read_the_trees_reads_the_files() {
    on_btrfs("root_without_the_right_to_read_the_trees_reads_the_files", &[], "", |own, dir| {
        images(dir, 24 * MIB, 18 * MIB);
        let (before, content) = (used(own), seen(dir));
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", env!("CARGO_BIN_EXE_pleach")]);
        let done = finish(setpriv.args(args(&["--no-cache"], dir))).expect(0);
        assert_eq!(done.stderr, "");
        let done = done.summary();
        assert!(number(&done, "read_bytes") >= 48 * MIB as u64, "{done}");
        assert!(assert_freed(&done, before, used(own)) >= 18 * MIB as u64 / 100 * 99, "{done}");
        assert_eq!(seen(dir), content);
    });
}

#[test]
fn reserved_space_holes_and_parts_of_extents_are_no_obstacle() {
    on_btrfs("reserved_space_holes_and_parts_of_extents_are_no_obstacle", &[], "", |own, dir| {
        let common = bytes(1, 4 * MIB);
        write(dir.join("a"), &[bytes(2, MIB), common.clone()].concat());
        // Written into reserved space, with a hole behind it.
        let reserved = File::create(dir.join("b")).expect("a file can be made");
        rustix::fs::fallocate(&reserved, rustix::fs::FallocateFlags::empty(), 0, 12 << 20).expect("space is there");
        reserved.write_all_at(&common, 3 << 20).expect("the file can be written");
        reserved.set_len(30 << 20).expect("the file can be longer");
        drop(reserved);
        // The middle of an extent that no other file holds.
        write(dir.join("whole"), &[bytes(3, MIB), common.clone(), bytes(4, MIB)].concat());
        write(dir.join("c"), &bytes(5, 2 * MIB));
        shapes::clone_range(&dir.join("whole"), 1 << 20, &dir.join("c"), 2 << 20, 4 << 20);
        fs::remove_file(dir.join("whole")).expect("a file can be removed");
        write(dir.join("unique"), &bytes(6, 60 * MIB));
        let (before, content) = (used(own), seen(dir));
        let read = bytes_from_disk(own, dir);
        assert!(read < 20 * MIB, "{read}");
        let after = used(own);
        assert!(before - after >= 4 * MIB as u64, "{before} {after}");
        assert_eq!(seen(dir), content);
        assert_eq!(number(&dedupe(&[], dir), "freed_bytes"), 0);
    });
}

#[test]
fn blocks_with_equal_checksums_that_differ_cost_little() {
    on_btrfs("blocks_with_equal_checksums_that_differ_cost_little", &[], "", |own, dir| {
        let one = bytes(1, 32 * MIB);
        // The first is read first, and the index has its blocks.
        write(dir.join("1"), &one);
        for (seed, name) in [(10, "2"), (11, "3")] {
            write(dir.join(name), &with_checksums_of(&one, seed));
        }
        write(dir.join("4"), &[bytes(2, MIB), one[..4 * MIB].to_vec()].concat());
        let (before, content) = (used(own), seen(dir));
        own.remount();
        for (run, shared) in [("first", 4 * MIB as u64), ("second", 0)] {
            let done = dedupe(&[], dir);
            assert_eq!(number(&done, "range_bytes"), shared, "{run}: {done}");
            // A window of each of the extents, and its halves.
            assert!(number(&done, "submitted_bytes") <= shared + (1 + 2 * 4 * 4) * MIB as u64, "{run}: {done}");
            assert!(number(&done, "read_bytes") <= 2 * shared + 20 * MIB as u64, "{run}: {done}");
            assert_eq!(done["skipped"]["differs"], 2, "{run}: {done}");
        }
        assert!(before - used(own) >= 4 * MIB as u64);
        assert_eq!(seen(dir), content);
    });
}

/// Other content with the same CRC32C of each block.
fn with_checksums_of(content: &[u8], seed: u64) -> Vec<u8> {
    // A CRC is linear: flipping a bit of the last four bytes always flips the same bits of the checksum.
    let flips: Vec<(u32, u32)> = {
        let sum = |end: u32| crc32c::crc32c_append(0, &[&[0; BLOCK - 4][..], &end.to_le_bytes()].concat());
        (0..32).map(|bit| (1 << bit, sum(1 << bit) ^ sum(0))).collect()
    };
    // In the order of elimination: each has the highest bit of its checksum for itself.
    let mut basis: Vec<(u32, u32)> = Vec::new();
    for (mut end, mut sum) in flips {
        for &(other_end, other_sum) in &basis {
            if sum ^ other_sum < sum {
                (end, sum) = (end ^ other_end, sum ^ other_sum);
            }
        }
        basis.push((end, sum));
        basis.sort_by_key(|&(_, sum)| std::cmp::Reverse(sum));
    }
    let mut other = bytes(seed, content.len());
    for (block, model) in other.chunks_mut(BLOCK).zip(content.chunks(BLOCK)) {
        let mut wrong = crc32c::crc32c(block) ^ crc32c::crc32c(model);
        let mut end = u32::from_le_bytes(block[BLOCK - 4..].try_into().expect("four bytes"));
        for &(flip, sum) in &basis {
            if wrong ^ sum < wrong {
                (end, wrong) = (end ^ flip, wrong ^ sum);
            }
        }
        block[BLOCK - 4..].copy_from_slice(&end.to_le_bytes());
        assert_eq!(crc32c::crc32c(block), crc32c::crc32c(model));
    }
    other
}
