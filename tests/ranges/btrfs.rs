//! Features that only Btrfs has: compressed extents, snapshots, files written in place.

use super::*;

/// A test on a Btrfs of its own, mounted with these options.
fn on_btrfs(test: &str, options: &str, body: fn(&mut Own)) {
    let test = format!("{}::{test}", module_path!());
    let Some(mut own) = Own::new(Kind::Btrfs, &test, 512, &[], options) else { return };
    fs::create_dir(own.join("tree")).expect("a directory can be made");
    body(&mut own);
    own.assert_clean();
}

#[test]
fn compressed_extents_are_shared_and_freed_as_well() {
    on_btrfs("compressed_extents_are_shared_and_freed_as_well", "compress-force=zstd", |own| {
        let dir = own.join("tree");
        write(dir.join("a"), &[half_zeros(1, 1 << 20), half_zeros(2, 12 << 20)].concat());
        write(dir.join("b"), &[half_zeros(3, 3 << 20), half_zeros(2, 12 << 20), half_zeros(4, 1 << 20)].concat());
        let (before, content) = (used(own), seen(&dir));
        let done = dedupe(&[], &dir);
        let after = used(own);
        assert!(assert_freed(&done, before, after) >= 5 << 20, "{done}");
        assert_eq!(seen(&dir), content);
        let again = dedupe(&[], &dir);
        assert_eq!(number(&again, "freed_bytes"), 0, "{again}");
    });
}

#[test]
fn a_snapshot_in_scope_moves_along_and_one_outside_pins() {
    on_btrfs("a_snapshot_in_scope_moves_along_and_one_outside_pins", "", |own| {
        let (tree, subvolume) = (own.join("tree"), own.join("tree/live"));
        let btrfs = |args: &[&str], paths: &[&Path]| finish(Command::new("btrfs").args(args).args(paths)).expect(0);
        btrfs(&["subvolume", "create"], &[&subvolume]);
        images(&subvolume, 16 << 20, 12 << 20);
        let inside = own.join("tree/inside");
        btrfs(&["subvolume", "snapshot", "-r"], &[&subvolume, &inside]);
        let (before, content) = (used(own), seen(&tree));
        // All these files share all their data with their snapshots: they are examined only if requested.
        let done = dedupe(&[], &tree);
        assert_eq!((number(&done, "read_bytes") < 1 << 20, number(&done, "freed_bytes")), (true, 0), "{done}");
        let done = dedupe(&["--ranges", "always"], &tree);
        assert!(assert_freed(&done, before, used(own)) >= (12 << 20) / 1000 * 999, "{done}");
        assert_eq!(seen(&tree), content);
        for name in ["a.img", "b.img"] {
            assert!(tools::assert_same_blocks(&subvolume.join(name), &inside.join(name)));
        }
        images(&subvolume, 8 << 20, 6 << 20);
        fs::create_dir(own.join("elsewhere")).expect("a directory can be made");
        btrfs(&["subvolume", "snapshot", "-r"], &[&subvolume, &own.join("elsewhere/snapshot")]);
        let before = used(own);
        let done = dedupe(&[], &subvolume);
        assert_eq!((number(&done, "freed_bytes"), number(&done, "rewritten_bytes")), (0, 0), "{done}");
        assert!(number(&done, "pinned_bytes") >= 5 << 20, "{done}");
        assert_eq!(used(own), before);
    });
}

#[test]
fn files_written_in_place_share_with_their_like_only() {
    on_btrfs("files_written_in_place_share_with_their_like_only", "", |own| {
        let dir = own.join("tree");
        let common = bytes(1, 6 << 20);
        for (number, name) in (0..).zip(["cow 1", "cow 2", "nocow 1", "nocow 2"]) {
            let path = dir.join(name);
            write(&path, b"");
            if name.starts_with("nocow") {
                tools::tool("chattr", &["+C"], &path);
            }
            let content = [bytes(10 + number, (1 << 20) + BLOCK * number as usize), common.clone(), vec![0; 1 << 20]];
            append(&path, &content.concat());
        }
        let (before, content) = (used(own), seen(&dir));
        let done = pleach(args(&["--no-cache"], &dir)).expect(0).summary();
        let freed = assert_freed(&done, before, used(own));
        // The part that the second of each kind has in common with the first, and its zeros. The zeros of the first are
        // in an extent that is mostly unique.
        assert!(freed >= 2 * (7 << 20), "{done}");
        assert_eq!(seen(&dir), content);
    });
}
