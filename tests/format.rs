//! The format is a promise: manifests that were written once stay readable for ever.
//!
//! `tests/samples/` is never edited. For a new version of the format, add a new sample with
//! `cargo test --test main -- --ignored write_a_sample` (which replaces none).

use pleach::testing::manifest::{
    Body, Directory, Entry, FileBody, Header, Item, Meta, Origin, Reader, Stored, Time, Totals, Writer,
};
use std::fs::File;
use std::path::{Path, PathBuf};

fn sample(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/samples/manifest-{version}"))
}

fn header() -> Header {
    Header {
        name: "2026-11-20T020000Z".into(),
        created: Time { seconds: 1_795_140_000, nanos: 123_456_789 },
        program: "pleach 0.1.0".into(),
        host: "sample".into(),
        sources: vec![b"/home".to_vec().into(), b"/odd\xff\n".to_vec().into()],
        tags: vec!["nightly".into(), "ä".into()],
        parent: Some("2026-11-19T020000Z".into()),
    }
}

fn totals() -> Totals {
    Totals { files: 3006, dirs: 6, symlinks: 1, others: 4, bytes: 1 << 41, written_bytes: 5, errors: 1 }
}

fn meta(mode: u32, ino: u64) -> Meta {
    Meta {
        mode,
        uid: 1000,
        gid: 100,
        mtime: Time { seconds: 1_700_000_000 + ino as i64, nanos: 999_999_999 },
        ctime: Time { seconds: 1_700_000_001, nanos: ino as u32 },
        btime: Some(Time { seconds: 1_600_000_000, nanos: 1 }),
        dev: 0x801,
        ino,
        nlink: 1,
        has_xattrs: false,
        kept_xattrs: Vec::new(),
        kept_here: false,
        flags: None,
        project: None,
        recheck: false,
    }
}

/// Empty before version 3.
fn origins(version: u32) -> Vec<Origin> {
    match version {
        1 | 2 => Vec::new(),
        _ => {
            vec![Origin { dev: 0x801, identity: *b"0123456789abcdef" }, Origin { dev: u64::MAX, identity: [0xff; 16] }]
        }
    }
}

fn directory(path: &[u8], scaffold: bool, ino: u64) -> Item {
    Item::Directory(Directory { path: path.to_vec(), scaffold, meta: Meta { nlink: 2, ..meta(0o040755, ino) } })
}

fn entry(name: &[u8], meta: Meta, body: Body) -> Item {
    Item::Entry(Entry { name: name.to_vec(), meta, body })
}

fn file(size: u64, stored: Stored) -> FileBody {
    FileBody { size, holes: 0, hash: None, stored, changed: false }
}

/// Every kind of record, with every field that this version has in use, and more than one block.
fn items(version: u32) -> Vec<Item> {
    let extended = |meta: Meta, flags, project| match version {
        1 => meta,
        _ => Meta { flags: Some(flags), project: Some(project), ..meta },
    };
    let rechecked = |meta: Meta| Meta { recheck: version > 2, ..meta };
    let mut items = vec![directory(b"", true, 2), directory(b"home", false, 10)];
    items.push(entry(b"\x01\xff\xfe", meta(0o100644, 12), Body::File(file(0, Stored::Copied))));
    let hashed = FileBody { hash: Some(*blake3::hash(b"x").as_bytes()), ..file(1, Stored::Inline) };
    items.push(entry(b".hidden", extended(meta(0o100600, 11), 0, 0), Body::File(hashed)));
    let sparse = FileBody { holes: (1 << 41) - 4096, changed: true, ..file(1 << 41, Stored::Cloned) };
    let old = Meta { mtime: Time { seconds: -1, nanos: 1 }, btime: None, nlink: 3, ..meta(0o104755, u64::MAX) };
    items.push(entry(b"sparse", extended(old, 0x80_0070, u32::MAX), Body::File(sparse)));
    items.push(directory(b"home/ann", false, 20));
    let kept = Meta {
        has_xattrs: true,
        kept_xattrs: vec![(b"security.capability".to_vec().into(), vec![1, 0, 0, 2, 0].into())],
        kept_here: true,
        ..meta(0o100755, 21)
    };
    items.push(entry(b"capable", kept, Body::File(file(4096, Stored::Cloned))));
    items.push(entry(b"char", meta(0o020660, 22), Body::Device(5, 1)));
    items.push(entry(b"disk", meta(0o060660, 23), Body::Device(8, 0)));
    items.push(entry(b"link", rechecked(meta(0o120777, 24)), Body::Symlink(b"../\xffelsewhere".to_vec())));
    items.push(entry(b"pipe", meta(0o010644, 25), Body::Fifo));
    items.push(entry(b"socket", meta(0o140755, 26), Body::Socket));
    items.push(directory(b"home/ann/many", false, 30));
    items.extend((0..3000).map(|i| {
        let name = format!("{i:05}.txt");
        entry(name.as_bytes(), meta(0o100644, 1000 + i), Body::File(file(i * 10, Stored::Cloned)))
    }));
    items.push(directory(b"home/ann-2", false, 40));
    items.push(directory(b"odd\xff\n", false, 50));
    items.push(entry(b"last", meta(0o100644, 51), Body::File(file(3, Stored::Inline))));
    items
}

#[test]
fn the_samples_of_all_versions_read_as_they_were_written() {
    (1..=pleach::testing::manifest::VERSION).for_each(reads_as_it_was_written);
}

fn reads_as_it_was_written(version: u32) {
    let reader = Reader::open(&sample(version)).unwrap();
    assert_eq!(reader.version(), version);
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.totals(), &totals());
    assert_eq!(reader.origins(), origins(version));
    assert!(reader.blocks() > 1);
    let read: Vec<Item> = reader.items().collect::<Result<_, _>>().unwrap();
    let expected = items(version);
    assert_eq!(read.len(), expected.len());
    for (read, expected) in read.iter().zip(&expected) {
        assert_eq!(read, expected);
    }
    let mut many = reader.entries_from(b"home/ann/many", b"02500").unwrap().unwrap();
    assert_eq!(many.advance().unwrap().unwrap().name, b"02500.txt");
}

#[test]
fn what_is_written_today_is_the_version_of_the_newest_sample() {
    assert!(sample(pleach::testing::manifest::VERSION).exists());
    assert!(!sample(pleach::testing::manifest::VERSION + 1).exists());
}

#[test]
#[ignore = "writes the sample of a new version, once"]
fn write_a_sample() {
    let path = sample(pleach::testing::manifest::VERSION);
    let mut writer = Writer::create(File::create_new(&path).unwrap(), &path, &header()).unwrap();
    items(pleach::testing::manifest::VERSION).iter().for_each(|item| writer.push(item).unwrap());
    writer.set_origins(origins(pleach::testing::manifest::VERSION));
    writer.finish(&totals()).unwrap();
}
