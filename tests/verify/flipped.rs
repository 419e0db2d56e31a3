//! A device that returns other data than was written: a byte is changed in the image of a filesystem.

use super::*;
use crate::harness::own::Own;
use std::os::unix::fs::FileExt as _;

/// The offset of a block in an image, by its content.
fn find(image: &Path, block: &[u8]) -> u64 {
    let file = File::open(image).unwrap();
    let length = file.metadata().unwrap().len();
    let mut buffer = vec![0; 1 << 20];
    for at in (0..length).step_by(buffer.len()) {
        file.read_exact_at(&mut buffer, at).unwrap();
        if let Some(found) = buffer.chunks(block.len()).position(|chunk| chunk == block) {
            return at + (found * block.len()) as u64;
        }
    }
    panic!("the block is nowhere in the image");
}

fn flip(kind: Kind, test: &str) {
    let Some(mut own) = Own::new(kind, test, 512, &["-K"], "") else { return };
    let (source, repo) = (own.join("source"), own.join("repo"));
    fs::create_dir_all(source.join("dir")).unwrap();
    let content = bytes(7, 12 << 20);
    write(source.join("dir/image"), &content);
    write(source.join("sound"), &bytes(8, 3 << 20));
    take("one", &source, &repo);
    take("two", &source, &repo);
    // The third has another version, which shares the damaged block, and the fourth another name.
    overwrite(&source.join("dir/image"), 1 << 20, &bytes(9, 5000));
    take("three", &source, &repo);
    fs::rename(source.join("dir/image"), source.join("moved")).unwrap();
    take("four", &source, &repo);
    assert_sound(&repo, &source);
    let damaged_at = 6 << 20;
    let (start, end) = (damaged_at as usize, damaged_at as usize + 4096);
    own.remount();
    // The kernel has the right data in memory, but the device no longer has it.
    let in_memory = inside(&repo, "one", &source).join("dir/image");
    assert_eq!(fs::read(&in_memory).unwrap(), content);
    let at = find(own.image(), &content[start..end]);
    overwrite(own.image(), at + 100, &[content[start + 100] ^ 1]);
    let run = run(&repo, &[]).expect(4);
    let mut lines = run.lines::<DamageLine>();
    lines.sort();
    // Btrfs has checksums of its own, and refuses to return such a block.
    let (why, offset) = if kind == Kind::Btrfs { ("unreadable", Some(damaged_at)) } else { ("content", None) };
    let line = |snapshot: &str, path: &str| DamageLine {
        snapshot: snapshot.into(),
        path: source.join(path).to_str().map(String::from),
        why: why.into(),
        offset,
    };
    let mut expected =
        [line("one", "dir/image"), line("two", "dir/image"), line("three", "dir/image"), line("four", "moved")];
    expected.sort();
    assert_eq!(lines, expected);
    let summary = run.summary();
    assert_eq!((number(&summary, "damaged"), number(&summary, "errors")), (4, 0));
    // Both versions, once: they have different names, so their common part is not looked for. The file with the last
    // name is read again: an address that was read is not proof of damage.
    assert!(number(&summary, "read_bytes") <= (3 * 12 + 3) << 20, "{summary}");
    assert_eq!(self::run(&repo, &["--quick"]).expect(0).lines::<DamageLine>(), []);
    // A sound copy of the first version, then one of the second.
    let good = own.join("good");
    let copy = |path: &str, content: &[u8]| {
        let path = good.join(source.join(path).strip_prefix("/").unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(path, content);
    };
    let repair = |repaired: u64, status: i32| {
        let summary = self::run(&repo, &["--repair-from", good.to_str().unwrap()]).expect(status).summary();
        assert_eq!(number(&summary, "repaired"), repaired, "{summary}");
    };
    copy("dir/image", &content);
    repair(2, 4);
    let mut second = content.clone();
    second[1 << 20..][..5000].copy_from_slice(&bytes(9, 5000));
    copy("dir/image", &second);
    copy("moved", &second);
    repair(2, 0);
    let file = |snapshot: &str, path: &str| inside(&repo, snapshot, &source).join(path);
    assert!(tools::assert_same_blocks(&file("one", "dir/image"), &file("two", "dir/image")));
    assert!(tools::assert_same_blocks(&file("three", "dir/image"), &file("four", "moved")));
    own.remount();
    assert_eq!(self::run(&repo, &[]).expect(0).lines::<DamageLine>(), []);
    assert_eq!(fs::read(file("two", "dir/image")).unwrap(), content);
    assert_eq!(fs::read(file("four", "moved")).unwrap(), second);
}

#[test]
fn a_flipped_byte_is_found_in_every_snapshot_and_path_and_repaired_on_xfs() {
    flip(Kind::Xfs, "verify::flipped::xfs");
}

#[test]
fn a_flipped_byte_is_found_in_every_snapshot_and_path_and_repaired_on_btrfs() {
    flip(Kind::Btrfs, "verify::flipped::btrfs");
}
