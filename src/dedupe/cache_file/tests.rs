//! A cache is read as it was written, and nothing else is believed or replaced.

use super::*;
use crate::dedupe::entry::{Entry, Key, LENGTH};
use crate::dedupe::facts::Facts;
use std::io::Read as _;
use std::num::NonZeroU64;
use std::os::unix::fs::{PermissionsExt as _, symlink};

fn entry(number: u8, layout: u64, age: u8) -> Entry {
    Entry { key: Key([number; 16]), facts: Facts { layout, ..Facts::default() }, age }
}

fn changes(entries: &[Entry]) -> Changes {
    let mut changes = Changes::default();
    entries.iter().for_each(|entry| changes.add(Change::Set(*entry), || unreachable!("they fit into memory")));
    changes
}

fn at(path: &Path) -> CacheFile {
    CacheFile { path: path.to_path_buf(), inode: None }
}

fn put(path: &Path, entries: &[Entry], index: &[u8]) -> Result<()> {
    at(path).replace(None, changes(entries), BlockIndex::Written(&mut |writer| writer.write_all(index)))
}

fn stored(path: &Path) -> Stored {
    match CacheFile::open(path.to_path_buf()).unwrap().1 {
        Content::Verified(stored) => stored,
        other => panic!("{other:?}"),
    }
}

/// Entries and index.
fn parts(stored: &Stored) -> (Vec<Entry>, Vec<u8>) {
    let mut index = Vec::new();
    stored.index()().read_to_end(&mut index).unwrap();
    (stored.all().unwrap(), index)
}

fn fault(path: &Path) -> CacheFault {
    match CacheFile::open(path.to_path_buf()).unwrap().1 {
        Content::Unusable(fault) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cache_is_read_as_it_was_written_and_damage_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sub/cache");
    assert!(matches!(CacheFile::open(path.clone()).unwrap().1, Content::Absent));
    let entries = [entry(1, 7, 0), entry(2, 2, 5), entry(3, 3, 0)];
    put(&path, &entries, b"an index").unwrap();
    assert_eq!(parts(&stored(&path)), (entries.to_vec(), b"an index".to_vec()));
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole.len(), HEADER + 3 * LENGTH + 8);
    for (at, expected) in [
        (17, CacheFault::OtherVersion),
        (30, CacheFault::Damaged),
        (50, CacheFault::Damaged),
        (HEADER - 1, CacheFault::Damaged),
        (HEADER + 40, CacheFault::Damaged),
        (whole.len() - 1, CacheFault::Damaged),
    ] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(fault(&path), expected, "{at}");
    }
    for length in [MAGIC.len(), COMMON, HEADER - 1, HEADER + 5, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(fault(&path), CacheFault::Truncated, "{length}");
    }
    let text = [&MAGIC[..], b" is how a cache begins, and this is a text about caches\n"].concat();
    fs::write(&path, &text).unwrap();
    assert!(CacheFile::open(path.clone()).is_err() && put(&path, &[], &[]).is_err());
    assert_eq!(fs::read(&path).unwrap(), text);
    fs::write(&path, &whole).unwrap();
    put(&path, &[entry(1, 1, 0)], &[]).unwrap();
    assert_eq!(parts(&stored(&path)), (vec![entry(1, 1, 0)], Vec::new()));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert_eq!(fault(&path), CacheFault::WritableByOthers);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn the_next_cache_has_the_changes_and_older_entries_unless_no_run_met_them_for_long() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache");
    put(&path, &[entry(1, 1, 7), entry(2, 2, 7), entry(3, 3, 30), entry(4, 4, 30), entry(5, 5, 1)], b"index").unwrap();
    let old = stored(&path);
    for number in [1, 4] {
        old.set_met(old.find(&Key([number; 16])).unwrap().0);
    }
    at(&path).replace(Some(&old), changes(&[entry(5, 9, 0), entry(6, 6, 0)]), BlockIndex::Unchanged).unwrap();
    let expected = [entry(1, 1, 0), entry(2, 2, 8), entry(4, 4, 0), entry(5, 9, 0), entry(6, 6, 0)];
    assert_eq!(parts(&stored(&path)), (expected.to_vec(), b"index".to_vec()));
    at(&path).replace(Some(&stored(&path)), changes(&[]), BlockIndex::Written(&mut |_| Ok(()))).unwrap();
    assert_eq!(parts(&stored(&path)).1, b"");
}

#[test]
fn only_the_files_that_were_moved_last_are_witnesses() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache");
    let moved = |number| {
        let Entry { key, facts, age } = entry(number, 1, 0);
        Entry { key, facts: Facts { moved: true, ..facts }, age }
    };
    put(&path, &[moved(1), entry(2, 2, 0)], &[]).unwrap();
    let flags = |path: &Path| stored(path).all().unwrap().iter().map(|entry| entry.facts.moved).collect::<Vec<_>>();
    at(&path).replace(Some(&stored(&path)), changes(&[entry(3, 3, 0)]), BlockIndex::Written(&mut |_| Ok(()))).unwrap();
    assert_eq!(flags(&path), [true, false, false]);
    let mut last = changes(&[]);
    last.add(Change::Moved { key: Key([2; 16]), layout: 9, first: 8 }, || unreachable!());
    at(&path).replace(Some(&stored(&path)), last, BlockIndex::Written(&mut |_| Ok(()))).unwrap();
    assert_eq!(flags(&path), [false, true, false]);
    let facts = stored(&path).find(&Key([2; 16])).unwrap().1.facts;
    assert_eq!((facts.layout, facts.first), (9, 8));
}

#[test]
fn each_of_many_entries_is_found_and_no_other_with_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache");
    let key = |number: u32| Key(u128::to_be_bytes(u128::from(number) << 96));
    for count in [0, 1, 63, 64, 65, 128, 10_000] {
        let entry = |number| Entry { key: key(2 * number + 1), ..entry(0, u64::from(number) + 1, 0) };
        put(&path, &(0..count).map(entry).collect::<Vec<_>>(), &[]).unwrap();
        let stored = stored(&path);
        for number in 0..count {
            let expected = (u64::from(number), entry(number));
            assert_eq!(stored.find(&key(2 * number + 1)), Some(expected), "{number} of {count}");
            assert_eq!(stored.find(&key(2 * number)), None, "{number} of {count}");
        }
        assert_eq!(stored.find(&key(2 * count)), None);
        assert!(stored.memory() <= 64 + count as usize, "{}", stored.memory());
    }
}

#[test]
fn a_cache_that_is_cut_or_changed_after_it_was_verified_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache");
    let entries: Vec<_> = (0..200).map(|number| entry(number, 1, 0)).collect();
    for harm in ["an entry", "the index", "cut"] {
        let _ = fs::remove_file(&path);
        put(&path, &entries, b"index").unwrap();
        let old = stored(&path);
        let mut bytes = fs::read(&path).unwrap();
        match harm {
            "an entry" => bytes[HEADER + 150 * LENGTH + 40] ^= 1,
            "the index" => *bytes.last_mut().unwrap() ^= 1,
            _ => bytes.truncate(HEADER + 100 * LENGTH),
        }
        fs::write(&path, &bytes).unwrap();
        assert_eq!(old.find(&Key([150; 16])).is_some(), harm != "cut");
        at(&path).replace(Some(&old), changes(&[entry(7, 7, 0)]), BlockIndex::Unchanged).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), bytes, "{harm}: the file is as it was");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}

#[test]
fn an_index_that_cannot_be_written_leaves_the_old_cache() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache");
    put(&path, &[entry(1, 1, 0)], b"index").unwrap();
    let old = stored(&path);
    let mut write = |writer: &mut dyn Write| writer.write_all(b"half").and(Err(io::Error::other("no more")));
    at(&path).replace(Some(&old), changes(&[]), BlockIndex::Written(&mut write)).unwrap_err();
    assert_eq!(parts(&stored(&path)), (vec![entry(1, 1, 0)], b"index".to_vec()));
}

/// This sample is never edited: caches of this version exist.
#[test]
fn a_cache_of_the_first_version_is_read_and_damage_to_it_is_noticed() {
    const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/dedupe-cache-1");
    let (dir, whole) = (tempfile::tempdir().unwrap(), fs::read(SAMPLE).unwrap());
    let path = dir.path().join("cache");
    fs::write(&path, &whole).unwrap();
    let number = NonZeroU64::new;
    let facts = Facts {
        layout: 0x0102_0304_0506_0708,
        first: 1 << 20,
        sample: number(11),
        full: number(12),
        compared: number(13),
        extents: 3,
        was_equal: true,
        shared: true,
        encoded: true,
        nocow: true,
        fixed: true,
        moved: true,
        ..Facts::default()
    };
    let inline = Facts { inline: true, ..Facts::default() };
    let of = |number: u8| match number % 3 {
        0 => Entry { key: Key([number * 2; 16]), facts, age: number % 30 },
        1 => Entry { key: Key([number * 2; 16]), facts: inline, age: 0 },
        _ => entry(number * 2, u64::from(number) << 33, 30),
    };
    let old = stored(&path);
    assert_eq!(parts(&old), ((0..100).map(of).collect(), Vec::new()));
    assert_eq!(old.find(&Key([198; 16])), Some((99, of(99))));
    at(&path).replace(Some(&old), changes(&[]), BlockIndex::Unchanged).unwrap();
    assert_eq!(stored(&path).all().unwrap().len(), 67, "those that no run has met for long are dropped");
    for at in (20..whole.len()).step_by(41) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(!matches!(CacheFile::open(path.clone()), Ok((_, Content::Verified(_)))), "{at}");
    }
    for length in (COMMON..whole.len()).step_by(101) {
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(fault(&path), CacheFault::Truncated, "{length}");
    }
}

#[test]
fn a_sparse_file_with_a_forged_count_takes_no_memory() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = dir.path().join("cache");
    let (count, empty) = (1_u64 << 33, blake3::Hasher::new());
    fs::write(&path, layout::header(count, &empty, 0, &empty)).unwrap();
    let size = count * LENGTH as u64 + HEADER as u64;
    File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
    assert_eq!(fault(&path), CacheFault::Damaged);
}

#[test]
fn nothing_but_a_cache_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    put(&at("cache"), &[entry(1, 1, 0)], &[]).unwrap();
    fs::write(at("text"), "a text").unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::create_dir(at("directory")).unwrap();
    symlink("cache", at("link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for name in ["text", "empty", "directory", "link", "pipe", "cache/", ".."] {
        assert!(CacheFile::open(at(name)).is_err(), "{name}");
        assert!(put(&at(name), &[], &[]).is_err(), "{name}");
    }
    assert_eq!(fs::read(at("text")).unwrap(), b"a text");
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("cache"));
    assert_eq!(stored(&at("cache")).all().unwrap(), [entry(1, 1, 0)]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6);
}
