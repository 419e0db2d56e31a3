//! Data that is equal at the same offset stays shared, whatever else changes in the file.

use super::*;
use crate::harness::own::Own;
use crate::on_filesystems;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

on_filesystems! {
    fn a_stream_becomes_a_new_file(fs: &Filesystem) {
        let dest = fs.join("new");
        for content in [&b""[..], b"x", &bytes(1, BLOCK), &bytes(2, 3 * MIB + 77)] {
            let summary = put_well(&dest, &[], content);
            assert_eq!(number(&summary, "shared_bytes"), 0, "{summary}");
            fs::remove_file(&dest).expect("a file can be removed");
        }
    }

    [xfs, btrfs] fn blocks_that_did_not_change_stay_where_they_are(fs: &Filesystem) {
        let dest = fs.join("file");
        let old = bytes(1, 20 * MIB + 77);
        write_synced(&dest, &old);
        let before = places(&dest);
        let changed = [0, 5, 6, 7, 700, 701, 5000, 5120];
        let summary = put_well(&dest, &[], &with_blocks(&old, &changed));
        let blocks = old.len().div_ceil(BLOCK);
        assert_shared(&dest, &summary, &before, blocks - changed.len());
        // Seven blocks, and a part of one at the end; Btrfs may report that part as a whole block.
        assert_eq!(number(&summary, "written_bytes"), 7 * BLOCK as u64 + 77, "{summary}");
        // The changed blocks are at no address of the old file.
        let after = places(&dest);
        assert!(changed.iter().all(|block| after[&(*block as u64)] != before[&(*block as u64)]));
    }

    [xfs, btrfs] fn the_same_stream_again_writes_nothing(fs: &Filesystem) {
        for size in [BLOCK, 2 * BLOCK + 1, 3 * MIB - 1, 3 * MIB] {
            let dest = fs.join(format!("file-{size}"));
            let old = bytes(1, size);
            write_synced(&dest, &old);
            let before = places(&dest);
            let summary = put_well(&dest, &[], &old);
            assert_shared(&dest, &summary, &before, size.div_ceil(BLOCK));
            assert_eq!(number(&summary, "written_bytes"), 0, "{summary}");
        }
    }

    [xfs, btrfs] fn a_longer_and_a_shorter_stream_share_what_they_have_in_common(fs: &Filesystem) {
        let dest = fs.join("file");
        let old = bytes(1, 3 * MIB + 1000);
        for size in [3 * MIB + 1001, 3 * MIB + 999, 3 * MIB, 5 * MIB + 3, MIB + 1, 4095, 1] {
            tools::write_in_one_extent(&dest, &old);
            let before = places(&dest);
            let mut new = old.clone();
            new.extend(bytes(2, 3 * MIB));
            new.truncate(size);
            let summary = put_well(&dest, &[], &new);
            // The last block of the shorter file is not a whole block of the longer one.
            let blocks = size.min(old.len()) / BLOCK;
            // If less than half of the old file's single extent is equal, that part is written, so that Btrfs can free
            // the extent.
            let blocks = if fs.kind == Kind::Btrfs && blocks * 2 < old.len() / BLOCK { 0 } else { blocks };
            assert_shared(&dest, &summary, &before, blocks);
            fs::remove_file(&dest).expect("a file can be removed");
        }
        write_synced(&dest, &old);
        assert_eq!(number(&put_well(&dest, &["--allow-empty"], b""), "written_bytes"), 0);
    }

    [xfs, btrfs] fn holes_stay_holes_and_none_are_made(fs: &Filesystem) {
        let dest = fs.join("sparse");
        let file = File::create(&dest).expect("a file can be made");
        file.write_all_at(&bytes(1, MIB), 0).expect("a file can be written");
        file.write_all_at(&bytes(2, MIB), 9 * MIB as u64).expect("a file can be written");
        file.sync_all().expect("a file can be synced");
        let blocks = |path: &Path| fs::metadata(path).expect("the file is there").blocks();
        let (taken, mut content) = (blocks(&dest), fs::read(&dest).expect("a file can be read"));
        let before = places(&dest);
        content[MIB / 2] ^= 1;
        let summary = put_well(&dest, &[], &content);
        assert_shared(&dest, &summary, &before, 2 * MIB / BLOCK - 1);
        assert!(blocks(&dest) <= taken + 8, "{} for {taken}", blocks(&dest));
        // Zeros that overwrite data are data.
        content[..MIB].fill(0);
        let summary = put_well(&dest, &[], &content);
        assert_eq!(number(&summary, "written_bytes"), MIB as u64, "{summary}");
        let fresh = fs.join("fresh");
        let summary = put_well(&fresh, &[], &vec![0; MIB]);
        assert_eq!(number(&summary, "written_bytes"), MIB as u64, "{summary}");
    }

    [xfs, btrfs] fn another_file_can_be_the_base(fs: &Filesystem) {
        let (base, dest) = (fs.join("monday"), fs.join("tuesday"));
        let old = bytes(1, 4 * MIB);
        write_synced(&base, &old);
        let before = places(&base);
        let args = ["--base", base.to_str().expect("a plain path")];
        let summary = put_well(&dest, &args, &with_blocks(&old, &[3]));
        assert_shared(&dest, &summary, &before, 4 * MIB / BLOCK - 1);
        // With a base, the replaced file is not the file to share with.
        write_synced(&dest, &bytes(5, 4 * MIB));
        let summary = put_well(&dest, &args, &with_blocks(&old, &[4]));
        assert_shared(&dest, &summary, &before, 4 * MIB / BLOCK - 1);
        assert_content(&base, &old);
    }

    fn a_base_that_cannot_be_shared_with_is_told_of(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (base, dest) = (other.join("base"), fs.join("dest"));
        let old = bytes(1, 2 * MIB);
        write_synced(&base, &old);
        let run = put(&dest, &["--base", base.to_str().expect("a plain path")], &old).expect(0);
        run.saying("shares nothing with");
        assert_content(&dest, &old);
        let run = put(&dest, &["--base", fs.join("missing").to_str().expect("a plain path")], &old).expect(1);
        run.saying("cannot open the base");
    }

    [ext4] fn without_reflinks_all_is_written_and_that_is_said(fs: &Filesystem) {
        let dest = fs.join("file");
        let old = bytes(1, 2 * MIB + 5);
        write_synced(&dest, &old);
        let run = put(&dest, &["--json"], &old).expect(0).saying("written completely: the filesystem has no reflinks");
        assert_eq!(number(&run.summary(), "written_bytes"), old.len() as u64);
        assert_content(&dest, &old);
        assert_no_temporary(&dest);
    }

    [xfs, btrfs] fn the_summary_is_what_was_documented(fs: &Filesystem) {
        let dest = fs.join("file");
        write_synced(&dest, &bytes(1, MIB));
        let summary = put_well(&dest, &[], &with_blocks(&bytes(1, MIB), &[7]));
        let size = MIB as u64;
        let told = ["bytes", "shared_bytes", "written_bytes", "read_bytes"].map(|field| number(&summary, field));
        assert_eq!(told, [size, size - 4096, 4096, 2 * size]);
        assert!(summary["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{summary}");
        let text = put(&dest, &[], &bytes(1, MIB)).expect(0).stdout;
        assert!(text.contains("written 4.0 KiB") && text.contains("shared  99.6 %"), "{text}");
        assert_eq!(put(&dest, &["-q"], &bytes(1, MIB)).expect(0).stdout, "");
    }

    [btrfs] fn an_extent_of_which_little_is_left_goes_with_the_old_file(fs: &Filesystem) {
        let dest = fs.join("file");
        let (old, blocks) = (bytes(1, 8 * MIB), 8 * MIB / BLOCK);
        let most: Vec<_> = (0..blocks).filter(|block| block % 3 != 0).collect();
        let some: Vec<_> = (0..blocks).filter(|block| block % 3 == 0).collect();
        for (changed, kept) in [(&most, 0), (&some, blocks - some.len())] {
            tools::write_in_one_extent(&dest, &old);
            let before = places(&dest);
            let summary = put_well(&dest, &[], &with_blocks(&old, changed));
            assert_shared(&dest, &summary, &before, kept);
            fs::remove_file(&dest).expect("a file can be removed");
        }
        // An extent that another file also holds stays in any case.
        tools::write_in_one_extent(&dest, &old);
        clone(&dest, &fs.join("snapshot"));
        let before = places(&dest);
        let summary = put_well(&dest, &[], &with_blocks(&old, &most));
        assert_shared(&dest, &summary, &before, some.len());
    }

    [btrfs] fn a_user_s_extents_go_by_what_lies_side_by_side(fs: &Filesystem) {
        let dest = fs.join("file");
        let old = bytes(1, 4 * MIB);
        let most: Vec<_> = (0..4 * MIB / BLOCK).filter(|block| block % 3 != 0).collect();
        tools::write_in_one_extent(&dest, &old);
        let before = places(&dest);
        let new = with_blocks(&old, &most);
        let mut bound = Command::new("setpriv");
        bound.args(["--inh-caps=-all", "--bounding-set=-sys_admin", env!("CARGO_BIN_EXE_pleach"), "put", "--json"]);
        let child = bound.arg(&dest).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let summary = feed(child.expect("setpriv can be started"), &new).expect(0).summary();
        assert_content(&dest, &new);
        assert_shared(&dest, &summary, &before, 0);
    }

    [xfs, btrfs] fn a_file_put_again_and_again_takes_the_room_of_one(fs: &Filesystem) {
        let Some(mut own) = Own::new(fs.kind, "put::content::room_of_one", 400, &[], "") else { return };
        let dest = own.join("file");
        let empty = own.used();
        let mut content = bytes(1, 32 * MIB);
        write_synced(&dest, &content);
        for night in 0..5 {
            let changed: Vec<_> = (0..32 * MIB / BLOCK).filter(|block| block % 50 == night).collect();
            content = with_blocks(&content, &changed);
            for block in changed {
                content[block * BLOCK] ^= night as u8;
            }
            put_well(&dest, &[], &content);
        }
        let used = own.used() - empty;
        let most = if fs.kind == Kind::Btrfs { 1.3 } else { 1.02 };
        assert!(used as f64 <= most * content.len() as f64, "{used}");
        own.assert_clean();
    }
}
