//! Manifests written and read again: round trips, ways to read, and the effects of damage.

mod packed;

use super::*;
use crate::error::ErrorKind;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

fn header() -> Header {
    Header {
        name: "n".into(),
        created: Time { seconds: 7, nanos: 8 },
        program: "p".into(),
        host: "h".into(),
        sources: vec![serde_bytes::ByteBuf::from(b"/\xff".to_vec())],
        tags: vec!["t".into()],
        parent: None,
    }
}

fn directory(path: &[u8]) -> Item {
    Item::Directory(Directory { path: path.to_vec(), scaffold: false, meta: Meta { ino: 1, ..Meta::default() } })
}

fn entry(name: &[u8], ino: u64) -> Item {
    let hash = Some(*blake3::hash(&ino.to_le_bytes()).as_bytes());
    let file = FileBody { size: ino, holes: 0, hash, stored: Stored::Cloned, changed: false };
    let meta = Meta { mode: 0o100644, ino, dev: 2049, nlink: 1, ..Meta::default() };
    Item::Entry(Entry { name: name.to_vec(), meta, body: Body::File(file) })
}

fn write(dir: &Path, items: &[Item], totals: &Totals) -> PathBuf {
    let path = dir.join("manifest");
    let mut writer = Writer::create(File::create(&path).unwrap(), &path, &header()).unwrap();
    for item in items {
        writer.push(item).unwrap();
    }
    writer.finish(totals).unwrap();
    path
}

/// A thousand directories in a deep tree, one of them with 30,000 entries: many blocks of every kind.
fn large() -> Vec<Item> {
    let mut items = vec![directory(b"")];
    let mut deep = Vec::new();
    for level in 0..600 {
        deep.extend_from_slice(format!("/a{level:-<30}").as_bytes());
        items.push(directory(&deep[1..]));
        items.push(entry(b"f", level));
    }
    items.push(directory(b"big"));
    items.extend((0..30_000).map(|i| entry(format!("{i:08}").as_bytes(), i)));
    for i in 0..400 {
        items.push(directory(format!("many{i:04}").as_bytes()));
        items.extend((0..i % 7).map(|j| entry(format!("f{j}").as_bytes(), j)));
    }
    items
}

fn all(items: Items<'_>) -> Vec<Item> {
    items.map(|item| item.unwrap()).collect()
}

#[test]
fn an_empty_manifest_reads_as_empty() {
    let dir = tempfile::tempdir().unwrap();
    let reader = Reader::open(&write(dir.path(), &[], &Totals::default())).unwrap();
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.items().count(), 0);
    assert_eq!(reader.items_from(b"a").count(), 0);
    assert!(reader.directory(b"").unwrap().is_none());
}

#[test]
fn a_large_manifest_is_read_as_a_stream_by_directory_and_from_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let items = large();
    let totals = Totals { files: 5, ..Totals::default() };
    let reader = Reader::open(&write(dir.path(), &items, &totals)).unwrap();
    assert!(reader.blocks() > 20, "{} blocks", reader.blocks());
    assert_eq!(reader.totals(), &totals);
    assert!(all(reader.items()) == items);
    let starts: Vec<usize> = (0..items.len()).filter(|&i| matches!(items[i], Item::Directory(_))).collect();
    for (n, &start) in starts.iter().enumerate() {
        let Item::Directory(directory) = &items[start] else { unreachable!() };
        let mut cursor = reader.directory(&directory.path).unwrap().unwrap();
        assert_eq!(cursor.directory(), directory);
        let end = starts.get(n + 1).copied().unwrap_or(items.len());
        for item in &items[start + 1..end] {
            assert_eq!(cursor.advance().unwrap().map(Item::Entry).as_ref(), Some(item));
        }
        assert_eq!(cursor.advance().unwrap(), None);
        if n % 50 == 0 {
            assert!(all(reader.items_from(&directory.path)) == items[start..]);
        }
        assert!(reader.directory(&[&directory.path[..], b"\x01"].concat()).unwrap().is_none());
        assert!(reader.directory(&[&directory.path[..], b"/zz"].concat()).unwrap().is_none());
    }
    let name = |entry: Option<Entry>| entry.map(|entry| String::from_utf8(entry.name).unwrap());
    for first in ["0", "00012345", "000123456", "00029999", "1"] {
        let mut cursor = reader.entries_from(b"big", first.as_bytes()).unwrap().unwrap();
        let expected = (0..30_000).map(|i| format!("{i:08}")).find(|name| name.as_str() >= first);
        assert_eq!(name(cursor.advance().unwrap()), expected);
    }
    let mut cursor = reader.directory(b"big").unwrap().unwrap();
    let mut passed = 0;
    assert_eq!(name(cursor.seek_with(b"00020000", |_| passed += 1).unwrap()).as_deref(), Some("00020000"));
    assert_eq!(passed, 20_000);
    assert_eq!(cursor.seek(b"000200005").unwrap(), None);
    assert_eq!(name(cursor.peek().unwrap().cloned()).as_deref(), Some("00020001"));
    assert_eq!(cursor.seek(b"zzz").unwrap(), None);
    assert_eq!(cursor.seek(b"zzzz").unwrap(), None);
}

#[test]
fn the_index_of_a_deep_tree_is_a_fraction_of_its_records() {
    let dir = tempfile::tempdir().unwrap();
    let mut items = vec![directory(b"")];
    let mut deep = Vec::new();
    for level in 0..1000 {
        deep.extend_from_slice(format!("/{level:-<250}").as_bytes());
        items.push(directory(&deep[1..]));
    }
    let reader = Reader::open(&write(dir.path(), &items, &Totals::default())).unwrap();
    let keys: usize = (0..reader.blocks()).map(|number| reader.blocks.index().key(number).0.len()).sum();
    assert!(reader.blocks() > 1 && keys < deep.len() / 2, "{keys} of {}", deep.len());
    assert!(all(reader.items()) == items);
}

#[test]
fn attributes_that_no_record_can_hold_are_dropped() {
    let with = |attributes: Vec<(&[u8], usize)>| {
        let kept_xattrs =
            attributes.into_iter().map(|(name, length)| (name.to_vec().into(), vec![0; length].into())).collect();
        Item::Entry(Entry {
            name: b"a".into(),
            meta: Meta { ino: 5, kept_xattrs, ..Meta::default() },
            body: Body::Fifo,
        })
    };
    let mut fits = with(vec![(b"user.a", 1 << 20); 7]);
    assert!(!shorten(&mut fits));
    for mut item in [with(vec![(b"user.a", 1 << 20); 9]), with(vec![(b"", 0); 70_000])] {
        assert!(shorten(&mut item));
        let Item::Entry(entry) = item else { unreachable!() };
        assert_eq!((entry.meta.kept_xattrs.len(), entry.meta.ino), (0, 0));
    }
}

#[test]
fn many_threads_read_one_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let reader = Reader::open(&write(dir.path(), &large(), &Totals::default())).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let reader = &reader;
            scope.spawn(move || {
                let mut cursor = reader.directory(b"big").unwrap().unwrap();
                for i in (thread * 500..30_000).step_by(997) {
                    let entry = cursor.seek(format!("{i:08}").as_bytes()).unwrap().unwrap();
                    assert_eq!(entry.meta.ino, i);
                }
            });
        }
    });
}

#[test]
fn the_writer_refuses_records_out_of_order_and_names_that_are_none() {
    let cases: &[&[Item]] = &[
        &[entry(b"a", 1)],
        &[directory(b"b"), directory(b"a")],
        &[directory(b"a"), directory(b"a")],
        &[directory(b"a"), directory(b"a/b/c")],
        &[directory(b"a"), directory(b"/b")],
        &[directory(b"a"), directory(b"a/..")],
        &[directory(b"a"), entry(b"y", 1), entry(b"x", 1)],
        &[directory(b"a"), entry(b"x", 1), entry(b"x", 1)],
        &[directory(b"a"), entry(b"", 1)],
        &[directory(b"a"), entry(b"..", 1)],
        &[directory(b"a"), entry(b"b/c", 1)],
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m");
    for case in cases {
        let mut writer = Writer::create(File::create(&path).unwrap(), &path, &header()).unwrap();
        let (last, before) = case.split_last().unwrap();
        before.iter().for_each(|item| writer.push(item).unwrap());
        assert!(writer.push(last).is_err(), "{case:?}");
    }
}

/// Opens a manifest and reads all of it. Returns the first error.
fn read_all(path: &Path) -> Result<Vec<Item>, crate::error::Error> {
    Reader::open(path)?.items().collect()
}

#[test]
fn every_flipped_bit_and_every_truncation_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut items = vec![directory(b"")];
    items.extend((0..2000).map(|i| entry(format!("{i:08}").as_bytes(), i)));
    let path = write(dir.path(), &items, &Totals::default());
    let whole = fs::read(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(reader.blocks() > 2);
    let ends = 400; // Beginning, and index, totals, footer: byte by byte. Blocks in steps.
    let step = |at: usize| if at < ends || at + ends > whole.len() { 1 } else { 97 };
    let mut at = 0;
    while at < whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let error = read_all(&path).expect_err("a flipped bit went unseen");
        assert_eq!(error.kind(), ErrorKind::Damage, "byte {at}: {error}");
        fs::write(&path, &whole[..at]).unwrap();
        let error = read_all(&path).expect_err("a truncation went unseen");
        assert_eq!(error.kind(), ErrorKind::Damage, "cut at {at}: {error}");
        at += step(at);
    }
}

#[test]
fn a_damaged_block_loses_only_its_own_records() {
    let dir = tempfile::tempdir().unwrap();
    let items = large();
    let path = write(dir.path(), &items, &Totals::default());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let reader = Reader::open(&path).unwrap();
    let results: Vec<_> = reader.items().collect();
    let errors: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].to_string().starts_with("cannot read the block "), "{}", errors[0]);
    assert!(results.len() > items.len() / 2);
}

#[test]
fn another_version_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), &[], &Totals::default());
    let mut bytes = fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&9_u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&(!9_u32).to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = read_all(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.to_string().contains("version 9") && error.to_string().contains("versions 1 to 3"), "{error}");
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    // Few distinct bytes around the slash, so that prefixes and near-equal names are common.
    proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'-'), Just(b'.'), Just(1), Just(255)], 1..4)
        .prop_filter("no name", |name| is_name(name))
}

fn body() -> impl Strategy<Value = Body> {
    let file = (0..=i64::MAX as u64, any::<u64>(), any::<Option<[u8; 32]>>(), any::<bool>()).prop_map(
        |(size, holes, hash, changed)| {
            let holes = holes.min(size);
            Body::File(FileBody { size, holes, hash, stored: Stored::Inline, changed })
        },
    );
    let symlink = proptest::collection::vec(any::<u8>(), 0..40).prop_map(Body::Symlink);
    prop_oneof![
        file,
        symlink,
        any::<(u32, u32)>().prop_map(|(a, b)| Body::Device(a, b)),
        Just(Body::Fifo),
        Just(Body::Socket)
    ]
}

fn meta() -> impl Strategy<Value = Meta> {
    let time = || (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Time { seconds, nanos });
    let xattrs = proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(|b| (b.clone().into(), b.into())),
        0..3,
    );
    let times = (time(), time(), proptest::option::of(time()));
    let extended = any::<(Option<u32>, Option<u32>)>();
    (any::<[u32; 3]>(), times, any::<[u64; 3]>(), any::<[bool; 3]>(), xattrs, extended).prop_map(
        |(
            [mode, uid, gid],
            (mtime, ctime, btime),
            [dev, ino, nlink],
            [has_xattrs, kept_here, recheck],
            kept_xattrs,
            (flags, project),
        )| {
            Meta {
                mode,
                uid,
                gid,
                mtime,
                ctime,
                btime,
                dev,
                ino,
                nlink,
                has_xattrs,
                kept_xattrs,
                kept_here,
                flags,
                project,
                recheck,
            }
        },
    )
}

/// A tree: paths with their directories, in order.
fn tree() -> impl Strategy<Value = Vec<Item>> {
    let path = proptest::collection::vec(name(), 0..5);
    let entries = proptest::collection::btree_map(name(), (meta(), body()), 0..6);
    proptest::collection::vec((path, entries, meta()), 0..20).prop_map(|directories| {
        let mut tree: BTreeMap<Vec<Vec<u8>>, (BTreeMap<_, _>, Meta)> = BTreeMap::new();
        for (path, entries, meta) in directories {
            for depth in 0..path.len() {
                tree.entry(path[..depth].to_vec()).or_default();
            }
            tree.insert(path, (entries, meta));
        }
        let mut items = Vec::new();
        for (path, (entries, meta)) in tree {
            items.push(Item::Directory(Directory { path: path.join(&b'/'), scaffold: entries.is_empty(), meta }));
            items.extend(entries.into_iter().map(|(name, (meta, body))| Item::Entry(Entry { name, meta, body })));
        }
        items
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_tree_reads_back_as_it_was_written(items in tree(), absent in name()) {
        let dir = tempfile::tempdir().unwrap();
        let reader = Reader::open(&write(dir.path(), &items, &Totals::default())).unwrap();
        prop_assert_eq!(&all(reader.items()), &items);
        for (place, item) in items.iter().enumerate() {
            if let Item::Directory(directory) = item {
                prop_assert_eq!(&all(reader.items_from(&directory.path)), &items[place..]);
                let cursor = reader.directory(&directory.path).unwrap().unwrap();
                prop_assert_eq!(cursor.directory(), directory);
            }
        }
        let is_there = items.iter().any(|item| matches!(item, Item::Directory(d) if d.path == absent));
        prop_assert_eq!(reader.directory(&absent).unwrap().is_some(), is_there);
        let behind = items.iter().position(|item| {
            matches!(item, Item::Directory(d) if compare_paths(&d.path, &absent) != std::cmp::Ordering::Less)
        });
        prop_assert_eq!(&all(reader.items_from(&absent)), &items[behind.unwrap_or(items.len())..]);
    }
}
