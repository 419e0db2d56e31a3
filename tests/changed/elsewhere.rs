//! Sources on another filesystem: the last version is cloned, and differing blocks are written into the clone.

use super::*;
use crate::on_filesystems;
use rustix::fs::{FallocateFlags, fallocate};

on_filesystems! {
    [xfs, btrfs] fn only_blocks_that_differ_are_written(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let (size, file) = (20 * MIB, source.join("image"));
        write(&file, &bytes(1, size as usize));
        let (_, before) = night(&source, &repo, "image");
        let changed = change_blocks(&file, 1000, one_in_hundred(size));
        let (summary, after) = night(&source, &repo, "image");
        let fields = ["changed_files", "copied_bytes", "cloned_bytes", "range_shared_bytes"];
        assert_eq!(numbers(&summary, fields), [1, changed, size - changed, size - changed], "{summary}");
        assert_eq!(summary["reasons"]["other_filesystem"], changed, "{summary}");
        assert_same_content(&file, &after);
        assert_eq!(shared(&before, &after), size - changed);
        // The list of hashes replaces reading the last version, except for the grains that differ.
        let read = number(&summary, "read_bytes");
        assert!(read >= size && read < size + size / 10, "{read} of {size}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs, btrfs] fn a_file_without_a_list_is_compared_with_its_last_version(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let (size, file) = (MIB + 700, source.join("file"));
        write(&file, &bytes(1, size as usize));
        let (_, before) = night(&source, &repo, "file");
        let changed = change_blocks(&file, 1000, [0, 1, 2, 100, 255]);
        let (summary, after) = night(&source, &repo, "file");
        assert_eq!(numbers(&summary, ["copied_bytes", "read_bytes"]), [changed, 2 * size], "{summary}");
        assert_same_content(&file, &after);
        assert_eq!(shared(&before, &after), size.next_multiple_of(BLOCK) - changed);
    }

    [xfs, btrfs] fn holes_that_became_zeros_hide_no_change_before_them(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let (size, file) = (12 * MIB, source.join("image"));
        let version = |seed: u64| -> Vec<u8> {
            let mut content = vec![0; size as usize];
            // Changes in the middle of a window, at its beginning, across windows, and at the end of the file.
            let changes = [(3 * MIB + 20_480, 300_000), (5 * MIB, 5000), (7 * MIB - 9000, 18_000), (size - 4096, 4096)];
            for (at, length) in changes {
                let at = at as usize;
                content[at..at + length].copy_from_slice(&bytes(seed + at as u64, length));
            }
            content
        };
        let sparse = File::create(&file).expect("a file can be made");
        sparse.set_len(size).expect("a file can be all hole");
        for (number, block) in version(1).chunks(BLOCK as usize).enumerate() {
            if block.iter().any(|byte| *byte != 0) {
                sparse.write_all_at(block, number as u64 * BLOCK).expect("a file can be written");
            }
        }
        night(&source, &repo, "image");
        // As a tool writes it that does not keep holes.
        fs::write(&file, version(2)).expect("a file can be written");
        let (_, after) = night(&source, &repo, "image");
        assert_same_content(&file, &after);
    }

    [xfs, btrfs] fn files_that_grew_or_shrank_share_what_they_still_have(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        // With an odd tail before and after, with none, and across the size from which there are lists.
        let sizes = [
            (3 * MIB + 17, 5 * MIB + 4001), (5 * MIB + 4001, 3 * MIB + 17),
            (2 * MIB, 2 * MIB + 1), (2 * MIB + 1, 2 * MIB),
            (9 * MIB + 5, 7 * MIB + 9), (7 * MIB + 9, 9 * MIB + 5),
            (20 * MIB + 5000, 12 * MIB + 300), (12 * MIB, 20 * MIB + 3),
        ];
        let files = (0..sizes.len()).map(|n| source.join(n.to_string())).collect::<Vec<_>>();
        let long = bytes(1, 21 * MIB as usize);
        for (file, (before, _)) in files.iter().zip(sizes) {
            write(file, &long[..before as usize]);
        }
        night(&source, &repo, "");
        let old = inside(&repo, "latest", &source).canonicalize().expect("the first snapshot");
        for (file, (before, after)) in files.iter().zip(sizes) {
            let open = File::options().write(true).open(file).expect("a file can be opened");
            open.set_len(after).expect("a file can be cut");
            if after > before {
                open.write_all_at(&bytes(9, (after - before) as usize), before).expect("a file can be written");
            }
        }
        let (summary, _) = night(&source, &repo, "");
        let new = inside(&repo, "latest", &source);
        let mut written = 0;
        for (number, (before, after)) in sizes.into_iter().enumerate() {
            let (one, other) = (old.join(number.to_string()), new.join(number.to_string()));
            assert_same_content(&files[number], &other);
            let common = before.min(after) / BLOCK * BLOCK;
            // One block at the end of the shorter file may be written again.
            assert!(shared(&one, &other) >= common - BLOCK, "{before} to {after}: {} shared", shared(&one, &other));
            written += after.next_multiple_of(BLOCK) - common + BLOCK;
        }
        assert!(number(&summary, "copied_bytes") <= written, "{summary}");
        tools::assert_equal_trees(&source, &new);
    }

    [xfs, btrfs] fn holes_are_made_and_filled_as_in_the_source(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        for (name, size) in [("small", 4 * MIB + 100), ("large", 24 * MIB + 100)] {
            let file = File::create(source.join(name)).expect("a file can be made");
            file.set_len(size).expect("a file can be extended");
            file.write_all_at(&bytes(1, 2 * MIB as usize), 64 << 10).expect("a file can be written");
            file.write_all_at(&bytes(2, 5000), size - 5000).expect("a file can be written");
            // Zeros that are written are data, not a hole.
            file.write_all_at(&[0; 65_536], 3 * MIB).expect("a file can be written");
        }
        let (_, _) = night(&source, &repo, "");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        for name in ["small", "large"] {
            let file = File::options().write(true).open(source.join(name)).expect("a file can be opened");
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let size = file.metadata().expect("a status").len();
            // A new hole in data, a hole filled with data, a hole filled with zeros, zeros that become a hole, the
            // tail.
            fallocate(&file, punch, 256 << 10, 512 << 10).expect("a hole can be made");
            file.write_all_at(&bytes(3, 40_960), 2560 << 10).expect("a file can be written");
            file.write_all_at(&[0; 8192], 3500 << 10).expect("a file can be written");
            fallocate(&file, punch, 3 * MIB, 32_768).expect("a hole can be made");
            fallocate(&file, punch, (size - 5000) / BLOCK * BLOCK, 3 * BLOCK).expect("a hole can be made");
        }
        let (summary, _) = night(&source, &repo, "");
        let new = inside(&repo, "latest", &source);
        for name in ["small", "large"] {
            assert_same_content(&source.join(name), &new.join(name));
            assert_eq!(map_of_holes(&new.join(name)), map_of_holes(&source.join(name)), "{name}");
        }
        assert_eq!(number(&summary, "copied_bytes"), 2 * (40_960 + 8192), "{summary}");
    }

    [btrfs] fn compressed_files_are_compared_too(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let file = source.join("image");
        write(&file, &b"compressible ".repeat(1 << 20));
        let status = fs::metadata(&file).expect("a status");
        let size = status.len();
        let (first, before) = night(&source, &repo, "image");
        // The file in the last snapshot is compressed, into one extent per 128 KiB.
        let tree = repo.join(first["name"].as_str().expect("a name"));
        finish(std::process::Command::new("btrfs").args(["property", "set", "-ts"]).arg(tree).args(["ro", "false"]))
            .expect(0);
        tools::tool("btrfs", &["filesystem", "defragment", "-f", "-czstd"], &before);
        let compressed = File::options().write(true).open(&before).expect("a file can be opened");
        compressed.set_modified(status.modified().expect("a time")).expect("a time can be set");
        let encoded = tools::extents(&before).iter().filter(|extent| extent.flags & 8 != 0).count();
        assert!(encoded > 50, "{encoded} compressed extents");
        let changed = change_blocks(&file, 1000, [3, 4, 500, 2000]);
        let (summary, after) = night(&source, &repo, "image");
        assert_eq!(numbers(&summary, ["copied_bytes", "cloned_bytes"]), [changed, size - changed], "{summary}");
        assert_same_content(&file, &after);
        let still = tools::extents(&after).iter().filter(|extent| extent.flags & 8 != 0).count();
        assert!(still >= encoded, "{still} compressed extents of {encoded}");
    }

    [btrfs] fn a_repository_whose_files_are_written_in_place_takes_blocks_too(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.dir("repo"));
        tools::tool("chattr", &["+C"], &repo);
        let (size, file) = (10 * MIB, source.join("image"));
        write(&file, &bytes(1, size as usize));
        let (_, before) = night(&source, &repo, "image");
        let kept = fs::read(&before).expect("the first snapshot can be read");
        let changed = change_blocks(&file, 1000, [0, 9, 10, 2000]);
        let (summary, after) = night(&source, &repo, "image");
        assert_eq!(numbers(&summary, ["copied_bytes", "cloned_bytes"]), [changed, size - changed], "{summary}");
        assert_eq!(shared(&before, &after), size - changed);
        assert_same_content(&file, &after);
        assert!(fs::read(&before).expect("the first snapshot can be read") == kept, "the first snapshot is as it was");
    }

    [xfs, btrfs] fn scattered_blocks_take_no_more_space_than_they_have(fs: &Filesystem) {
        let other = fs.elsewhere();
        let Some(own) = Own::new(fs.kind, "changed::elsewhere::scattered", 600, &[], "") else { return };
        let (source, repo) = (other.dir("source"), own.join("repo"));
        let (size, file) = (128 * MIB, source.join("image"));
        write(&file, &bytes(1, size as usize));
        night(&source, &repo, "image");
        let changed = change_blocks(&file, 1000, one_in_hundred(size));
        let before = disk_space::free_bytes(own.path());
        let (summary, after) = night(&source, &repo, "image");
        // Measured at once: XFS frees its reservations for such writes only after minutes.
        let taken = before - disk_space::free_bytes(own.path());
        assert_eq!(number(&summary, "copied_bytes"), changed, "{summary}");
        assert!(taken < changed + changed / 2 + MIB, "{taken} bytes taken for {changed}");
        assert_same_content(&file, &after);
    }
}
