//! Sources on the repository's own filesystem: the source is cloned, and equal blocks of the clone are shared with the
//! last version.

use super::*;
use crate::harness::meddler::Stop;
use crate::on_filesystems;

/// Rewrites a whole file with some blocks changed, like programs that save files.
fn rewrite(file: &Path, content: &mut [u8], seed: u64, blocks: &[u64]) -> u64 {
    for &block in blocks {
        let at = (block * BLOCK) as usize..((block + 1) * BLOCK) as usize;
        content[at].copy_from_slice(&bytes(seed + block, BLOCK as usize));
    }
    fs::remove_file(file).expect("a file can be removed");
    write(file, content);
    File::open(file).and_then(|file| file.sync_all()).expect("a file can be synced");
    blocks.len() as u64 * BLOCK
}

/// The bytes copied on this filesystem for differing blocks that are scattered over extents of the source. On XFS these
/// blocks stay shared with the source; on Btrfs they are copied, because sharing would keep the source's extents.
fn copied(fs: &Filesystem, changed: u64) -> u64 {
    if fs.kind == Kind::Btrfs { changed } else { 0 }
}

/// Snapshots a file that is written anew before each of two snapshots, prepared by `prepare` while it is empty. Returns
/// the file in the second snapshot.
fn in_a_manner(fs: &Filesystem, name: &str, prepare: fn(&Path)) -> PathBuf {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    let (size, file) = (4 * MIB, source.join(name));
    let mut content = bytes(1, BLOCK as usize / 2).repeat(2 * (size / BLOCK) as usize);
    let make = |content: &[u8]| {
        for _ in 0..100 {
            let _ = fs::remove_file(&file);
            write(&file, b"");
            prepare(&file);
            write(&file, content);
            File::open(&file).and_then(|file| file.sync_all()).expect("a file can be synced");
            // A sync of the filesystem by another test during the write cuts extents, and then other blocks are copied.
            if tools::extents(&file).iter().all(|extent| extent.length * 512 >= 128 << 10) {
                return;
            }
        }
        panic!("the extents of {} were cut each time", file.display());
    };
    make(&content);
    let (_, before) = night(&source, &repo, name);
    for block in [5, 6, 700] {
        let at = (block * BLOCK) as usize..((block + 1) * BLOCK) as usize;
        content[at].copy_from_slice(&bytes(block, BLOCK as usize));
    }
    make(&content);
    let (summary, after) = night(&source, &repo, name);
    assert_eq!(numbers(&summary, ["copied_bytes", "cloned_bytes"]), [3 * BLOCK, size - 3 * BLOCK], "{summary}");
    assert_same_content(&file, &after);
    // For every part of a compressed extent, xfs_io reports the same address: the beginning of the extent.
    assert!(shared(&before, &after) > 0 && shared(&file, &after) == 0);
    after
}

on_filesystems! {
    [xfs, btrfs] fn a_file_written_whole_shares_what_did_not_change_with_its_last_version(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let (size, file) = (20 * MIB + 77, source.join("image"));
        let mut content = bytes(1, size as usize);
        write(&file, &content);
        let (_, before) = night(&source, &repo, "image");
        let changed = rewrite(&file, &mut content, 1000, &one_in_hundred(size));
        // A file that is saved under another name and renamed has another inode, but is still compared.
        let (summary, after) = night(&source, &repo, "image");
        assert_eq!(numbers(&summary, ["changed_files", "copied_bytes"]), [1, copied(fs, changed)], "{summary}");
        assert_eq!(number(&summary, "range_shared_bytes"), size - copied(fs, changed), "{summary}");
        assert_same_content(&file, &after);
        assert_eq!(shared(&before, &after), size.next_multiple_of(BLOCK) - changed);
        assert_eq!(shared(&file, &after), changed - copied(fs, changed));
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs, btrfs] fn what_the_kernel_is_to_compare_is_read_from_the_disk_once(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let (size, file) = (32 * MIB, source.join("image"));
        let mut content = bytes(1, size as usize);
        write(&file, &content);
        let (_, before) = night(&source, &repo, "image");
        rewrite(&file, &mut content, 1000, &one_in_hundred(size));
        tools::forget(&file);
        tools::forget(&before);
        let read = tools::bytes_from_disk(&snapshot_named("second", &source, &repo));
        assert!((2 * size..2 * size + size / 4).contains(&read), "{read} bytes of two files of {size} were read");
    }

    [xfs, btrfs] fn the_end_of_the_data_is_looked_for_once_and_not_for_every_window(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let (windows, file) = (64, source.join("image"));
        write(&file, &bytes(1, windows * MIB as usize));
        night(&source, &repo, "image");
        change_blocks(&file, 1000, one_in_hundred(windows as u64 * MIB));
        let calls = tools::traced_calls("lseek", &snapshot_named("second", &source, &repo), &fs.join("trace"));
        let ends = calls.iter().filter(|call| call.contains("SEEK_HOLE")).count();
        // Threads that begin at the same time may each check.
        assert!((1..windows / 2).contains(&ends), "{ends} times for {windows} windows");
    }

    [xfs, btrfs] fn blocks_changed_in_place_stay_shared_with_the_source(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let (size, file) = (20 * MIB, source.join("image"));
        write(&file, &bytes(1, size as usize));
        let (_, before) = night(&source, &repo, "image");
        let changed = change_blocks(&file, 1000, one_in_hundred(size));
        File::open(&file).and_then(|file| file.sync_all()).expect("a file can be synced");
        let (summary, after) = night(&source, &repo, "image");
        assert_eq!(numbers(&summary, ["copied_bytes", "range_shared_bytes"]), [0, size], "{summary}");
        assert_eq!((shared(&before, &after), shared(&file, &after)), (size - changed, size));
        assert_same_content(&file, &after);
    }

    [xfs, btrfs] fn a_file_of_which_only_metadata_changed_is_not_read(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let file = source.join("image");
        write(&file, &bytes(1, 3 * MIB as usize));
        let (first, _) = night(&source, &repo, "image");
        assert_eq!(number(&first, "read_bytes"), 3 * MIB);
        tools::tool("chmod", &["600"], &file);
        let (summary, after) = night(&source, &repo, "image");
        let fields = ["changed_files", "read_bytes", "copied_bytes", "cloned_bytes"];
        assert_eq!(numbers(&summary, fields), [1, 0, 0, 3 * MIB], "{summary}");
        assert!(tools::assert_same_blocks(&file, &after));
        // The hash is still known; otherwise the file would have to be read now.
        tools::tool("chmod", &["640"], &file);
        assert_eq!(number(&night(&source, &repo, "image").0, "read_bytes"), 0);
    }

    [btrfs] fn where_much_changed_the_source_s_extents_are_shared(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let (size, file) = (4 * MIB, source.join("image"));
        let mut content = bytes(1, size as usize);
        write(&file, &content);
        let (_, before) = night(&source, &repo, "image");
        let most: Vec<_> = (0..size / BLOCK).filter(|block| block % 3 != 0).collect();
        rewrite(&file, &mut content, 1000, &most);
        let (summary, after) = night(&source, &repo, "image");
        assert_eq!(number(&summary, "copied_bytes"), 0, "{summary}");
        // All extents are shared with the source, except any that is a single equal block: a sync of the filesystem
        // during the write can make such extents.
        let of_last = shared(&before, &after);
        assert_eq!(shared(&file, &after) + of_last, size);
        assert!(of_last <= 8 * BLOCK, "{of_last}");
        assert_same_content(&file, &after);
    }

    [btrfs] fn who_may_not_read_the_filesystem_s_trees_decides_by_what_lies_side_by_side(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let (size, file) = (6 * MIB, source.join("image"));
        let mut content = bytes(1, size as usize);
        write(&file, &content);
        let (_, before) = night(&source, &repo, "image");
        let changed = rewrite(&file, &mut content, 1000, &one_in_hundred(size));
        settle();
        let mut bound = std::process::Command::new("setpriv");
        bound.args(["--inh-caps=-all", "--bounding-set=-sys_admin", env!("CARGO_BIN_EXE_pleach")]);
        let summary = finish(bound.args(snapshot_named("second", &source, &repo))).expect(0).summary();
        assert_eq!(number(&summary, "copied_bytes"), changed, "{summary}");
        let after = inside(&repo, "second", &source).join("image");
        assert_eq!((shared(&before, &after), shared(&file, &after)), (size - changed, 0));
        assert_same_content(&file, &after);
    }

    [btrfs] fn files_that_are_written_in_place_share_too(fs: &Filesystem) {
        in_a_manner(fs, "nocow", |file| drop(tools::tool("chattr", &["+C"], file)));
    }

    [btrfs] fn compressed_files_share_too(fs: &Filesystem) {
        let after = in_a_manner(fs, "compressed", |file| {
            let flag = "zstd".as_bytes();
            rustix::fs::setxattr(file, "btrfs.compression", flag, rustix::fs::XattrFlags::empty()).expect("a property");
        });
        let plain = tools::extents(&after)
            .iter()
            .filter(|extent| extent.flags & 8 == 0)
            .map(|extent| extent.length)
            .sum::<u64>();
        assert!(plain * 512 <= 3 * BLOCK, "what was compressed is: {plain}");
    }

    [xfs, btrfs] fn a_file_that_never_rests_is_kept_as_of_one_moment(fs: &Filesystem) {
        use std::sync::atomic::{AtomicBool, Ordering};
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let (size, file) = (2 * MIB, source.join("image"));
        write(&file, &vec![b'0'; size as usize]);
        night(&source, &repo, "image");
        let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let summary = std::thread::scope(|scope| {
            scope.spawn(|| {
                let open = File::options().write(true).open(&file).expect("a file can be opened");
                // Each state of the file consists of a single letter, so a mixture of two states would show.
                for letter in (b'a'..=b'z').cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                    open.write_all_at(&vec![letter; size as usize], 0).expect("a file can be written");
                    begun.store(true, Ordering::Relaxed);
                }
            });
            let _stop = Stop(&done);
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            pleach(snapshot_named("second", &source, &repo)).expect(0).summary()
        });
        assert_eq!(numbers(&summary, ["changed_files", "errors"]), [1, 0], "{summary}");
        let kept = fs::read(inside(&repo, "second", &source).join("image")).expect("the snapshot can be read");
        assert!(kept == vec![kept[0]; size as usize], "it is of one moment");
        // The change that came after it is not missed.
        let (summary, after) = night(&source, &repo, "image");
        assert_eq!(number(&summary, "changed_files"), 1, "{summary}");
        assert_same_content(&file, &after);
    }

    [xfs, btrfs] fn two_nights_and_the_live_file_hold_what_differs_once(fs: &Filesystem) {
        let Some(mut own) = Own::new(fs.kind, "changed::here::two_nights", 700, &[], "") else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).expect("a directory can be made");
        let (size, file) = (128 * MIB, source.join("image"));
        let empty = own.used();
        let mut content = bytes(1, size as usize);
        write(&file, &content);
        night(&source, &repo, "image");
        rewrite(&file, &mut content, 1000, &one_in_hundred(size));
        let (_, after) = night(&source, &repo, "image");
        assert_same_content(&file, &after);
        let all = own.used() - empty;
        assert!(all as f64 <= 2.05 * size as f64, "{all} bytes for {size}");
        fs::remove_file(&file).expect("a file can be removed");
        let snapshots = own.used() - empty;
        assert!(snapshots as f64 <= 1.03 * size as f64, "{snapshots} bytes for {size}");
        assert!(fs::read(&after).expect("the snapshot can be read") == content);
        own.assert_clean();
    }
}
