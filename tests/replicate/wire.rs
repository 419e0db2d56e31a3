//! Streams made and changed by hand, with right digests. It follows `docs/stream.md` and shares no code with the
//! program.

use pleach::testing::manifest::{Body, Directory, Entry, FileBody, Header, Item, Meta, Origin, Stored, Time, Totals};
use rustix::fs::FileType;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::{ByteBuf, Bytes};

pub(super) type Digest = [u8; 32];
pub(super) type Xattrs = Vec<(ByteBuf, ByteBuf)>;

const START: [u8; 12] = *b"pleachST\x01\0\0\0";
const MOST: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Op {
    Offer(Vec<(String, Digest)>),
    Begin(Begin),
    Device { old: u64, new: u64 },
    Same { count: u64, recheck: bool },
    Gone { count: u64 },
    Directory { replaces: bool, directory: Directory, xattrs: Xattrs },
    Entry { replaces: bool, entry: Entry, xattrs: Xattrs, content: Content },
    Data { offset: u64, length: u64 },
    Clone { offset: u64, length: u64, from: Place },
    Hole { offset: u64, length: u64 },
    Complete,
    Bye,
    End { totals: Totals, digest: Digest },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Begin {
    pub(super) header: Header,
    pub(super) identity: Digest,
    pub(super) base: Option<(String, Digest)>,
    pub(super) position: Position,
    pub(super) top: Time,
    pub(super) origins: Vec<Origin>,
    pub(super) totals: Totals,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) records: u64,
    pub(super) base_records: u64,
    pub(super) offset: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Content {
    InRecord,
    Of(Place),
    LinkTo(ByteBuf),
    Parts { start: Option<Place> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) side: Side,
    pub(super) path: ByteBuf,
    pub(super) offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Side {
    Base,
    New,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Reply {
    Answer(Vec<State>),
    Received,
    Failed { code: String, message: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum State {
    Complete,
    Missing,
    Begun { base: Option<String>, position: Position },
    Other,
}

/// A part of a stream: an operation as its bytes, or the bytes behind a `Data`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Op(Vec<u8>),
    Bytes(Vec<u8>),
}

/// A stream in parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stream {
    pub(super) parts: Vec<Part>,
}

impl Part {
    pub(super) fn of(op: &Op) -> Part {
        Part::Op(postcard::to_stdvec(op).expect("it can be encoded"))
    }

    pub(super) fn op(&self) -> Option<Op> {
        match self {
            Part::Op(bytes) => postcard::from_bytes(bytes).ok(),
            Part::Bytes(_) => None,
        }
    }
}

/// The bytes in the frames of a stream.
pub(super) fn unframed(stream: &[u8]) -> Vec<u8> {
    let (start, mut rest) = stream.split_at(START.len());
    assert_eq!(start, START);
    let mut all = Vec::new();
    let mut number = 0_u64;
    while !rest.is_empty() {
        let length = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (stored, raw) = (length(0), length(4));
        let end = 8 + stored;
        assert_eq!(rest[end..end + 32], digest(number, &rest[..end]));
        let payload = &rest[8..end];
        match raw {
            0 => all.extend_from_slice(payload),
            _ => all.extend(zstd::bulk::decompress(payload, raw).expect("it can be unpacked")),
        }
        number += 1;
        rest = &rest[end + 32..];
    }
    all
}

fn digest(number: u64, frame: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(&number.to_le_bytes()).update(frame).finalize().as_bytes()
}

/// The replies in what a receiver wrote.
pub(super) fn replies(stream: &[u8]) -> Vec<Reply> {
    messages(&unframed(stream))
}

fn messages<T: DeserializeOwned>(mut bytes: &[u8]) -> Vec<T> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (message, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        all.push(postcard::from_bytes(message).expect("a message"));
        bytes = rest;
    }
    all
}

impl Stream {
    pub(super) fn parse(stream: &[u8]) -> Stream {
        let bytes = unframed(stream);
        let mut rest = &bytes[..];
        let mut parts = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (op, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            parts.push(Part::Op(op.to_vec()));
            rest = after;
            if let Some(Op::Data { length, .. }) = parts.last().and_then(Part::op) {
                let (content, after) = rest.split_at(length as usize);
                parts.push(Part::Bytes(content.to_vec()));
                rest = after;
            }
        }
        Stream { parts }
    }

    /// The stream in frames with right digests. Long frames are packed if `packs`.
    pub(super) fn encode(&self, packs: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in &self.parts {
            match part {
                Part::Op(op) => {
                    bytes.extend_from_slice(&(op.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(op);
                }
                Part::Bytes(content) => bytes.extend_from_slice(content),
            }
        }
        framed(&bytes, packs)
    }
}

/// Bytes in frames with right digests.
pub(super) fn framed(bytes: &[u8], packs: bool) -> Vec<u8> {
    let mut out = START.to_vec();
    for (number, chunk) in bytes.chunks(MOST).enumerate() {
        let mut frame = Vec::new();
        if packs {
            let packed = zstd::bulk::compress(chunk, 1).expect("it can be packed");
            frame.extend_from_slice(&(packed.len() as u32).to_le_bytes());
            frame.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
            frame.extend_from_slice(&packed);
        } else {
            frame.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
            frame.extend_from_slice(&0_u32.to_le_bytes());
            frame.extend_from_slice(chunk);
        }
        out.extend_from_slice(&frame);
        out.extend_from_slice(&digest(number as u64, &frame));
    }
    out
}

/// A stream with one snapshot, and the digest of its records.
#[derive(Clone)]
pub(super) struct Draft {
    pub(super) stream: Stream,
    records: blake3::Hasher,
    items: Vec<Item>,
}

impl Draft {
    /// Begins a snapshot with this name, based on another one. Its identity is `[1; 32]`.
    pub(super) fn new(name: &str, base: Option<(&str, Digest)>) -> Draft {
        let header = Header {
            name: name.into(),
            created: Time { seconds: 1_700_000_000, nanos: 0 },
            program: "a test".into(),
            host: "host".into(),
            sources: vec![ByteBuf::from(b"/source".to_vec())],
            tags: Vec::new(),
            parent: None,
        };
        let base = base.map(|(name, identity)| (name.to_string(), identity));
        let (position, origins, totals) = (Position::default(), Vec::new(), Totals::default());
        let top = header.created;
        let mut draft = Draft::empty();
        draft.push(&Op::Begin(Begin { header, identity: [1; 32], base, position, top, origins, totals }));
        draft
    }

    pub(super) fn empty() -> Draft {
        Draft { stream: Stream::default(), records: blake3::Hasher::new(), items: Vec::new() }
    }

    /// Changes how the snapshot begins.
    pub(super) fn beginning(mut self, change: impl FnOnce(&mut Begin)) -> Draft {
        let Some(Op::Begin(mut begin)) = self.stream.parts[0].op() else { panic!("it begins") };
        change(&mut begin);
        self.stream.parts[0] = Part::of(&Op::Begin(begin));
        self
    }

    pub(super) fn push(&mut self, op: &Op) {
        match op {
            Op::Directory { directory, .. } => self.count(&Item::Directory(directory.clone())),
            Op::Entry { entry, .. } => self.count(&Item::Entry(entry.clone())),
            _ => {}
        }
        self.stream.parts.push(Part::of(op));
    }

    pub(super) fn and(mut self, op: Op) -> Draft {
        self.push(&op);
        self
    }

    pub(super) fn and_all(self, ops: impl IntoIterator<Item = Op>) -> Draft {
        ops.into_iter().fold(self, Draft::and)
    }

    /// Records of the base that stay.
    pub(super) fn same(mut self, items: &[Item]) -> Draft {
        items.iter().for_each(|item| self.count(item));
        self.and(Op::Same { count: items.len() as u64, recheck: false })
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Draft {
        self.stream.parts.push(Part::Bytes(bytes.to_vec()));
        self
    }

    /// A new file with this content.
    pub(super) fn with_file(self, name: &[u8], content: &[u8]) -> Draft {
        let length = content.len() as u64;
        self.and(new(file(name, length), Content::Parts { start: None }))
            .and(Op::Data { offset: 0, length })
            .bytes(content)
            .and(Op::Complete)
    }

    /// The digest of the records so far.
    pub(super) fn digest(&self) -> Digest {
        *self.records.finalize().as_bytes()
    }

    /// The whole stream.
    pub(super) fn end(mut self) -> Vec<u8> {
        let digest = self.digest();
        self.push(&Op::End { totals: Totals::default(), digest });
        self.push(&Op::Bye);
        self.stream.encode(true)
    }

    /// The records so far.
    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    fn count(&mut self, item: &Item) {
        self.items.push(item.clone());
        let (kind, name, meta, scaffold) = match item {
            Item::Directory(directory) => (0_u8, &directory.path, &directory.meta, directory.scaffold),
            Item::Entry(entry) => (1, &entry.name, &entry.meta, false),
        };
        let (mut of_file, mut target, mut device) = (None, None, None);
        if let Item::Entry(entry) = item {
            match &entry.body {
                Body::File(file) => of_file = Some((file.size, file.holes, file.hash, file.changed)),
                Body::Symlink(to) => target = Some(Bytes::new(to)),
                Body::Device(major, minor) => device = Some((*major, *minor)),
                Body::Fifo | Body::Socket => {}
            }
        }
        let m = meta;
        let owner = (m.mode, m.uid, m.gid, m.mtime, m.ctime, m.btime);
        let inode = (m.dev, m.ino, m.nlink, m.has_xattrs, m.flags, m.project, m.recheck);
        let record = (kind, Bytes::new(name), scaffold, owner, inode, (of_file, target, device));
        self.records.update(&postcard::to_stdvec(&record).expect("it can be encoded"));
    }
}

pub(super) fn meta(kind: FileType, permissions: u32) -> Meta {
    let time = Time { seconds: 1_600_000_000, nanos: 5 };
    Meta { mode: kind.as_raw_mode() | permissions, mtime: time, ctime: time, dev: 7, nlink: 1, ..Meta::default() }
}

pub(super) fn directory(path: &[u8]) -> Op {
    let directory = Directory { path: path.to_vec(), scaffold: false, meta: meta(FileType::Directory, 0o755) };
    Op::Directory { replaces: false, directory, xattrs: Vec::new() }
}

/// A file. Its inode number comes from its name.
pub(super) fn file(name: &[u8], size: u64) -> Entry {
    let ino = 1 + name.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(7) + u64::from(*byte)) % 1000;
    let body = FileBody { size, holes: 0, hash: None, stored: Stored::Copied, changed: false };
    Entry { name: name.to_vec(), meta: Meta { ino, ..meta(FileType::RegularFile, 0o644) }, body: Body::File(body) }
}

pub(super) fn symlink(name: &[u8], target: &[u8]) -> Entry {
    Entry { name: name.to_vec(), meta: meta(FileType::Symlink, 0o777), body: Body::Symlink(target.to_vec()) }
}

pub(super) fn node(name: &[u8], kind: FileType, body: Body) -> Entry {
    Entry { name: name.to_vec(), meta: meta(kind, 0o600), body }
}

/// An entry with several names.
pub(super) fn linked(mut entry: Entry, ino: u64) -> Entry {
    (entry.meta.nlink, entry.meta.ino) = (2, ino);
    entry
}

pub(super) fn new(entry: Entry, content: Content) -> Op {
    Op::Entry { replaces: false, entry, xattrs: Vec::new(), content }
}

/// An entry in the place of the base's one.
pub(super) fn replacing(entry: Entry, content: Content) -> Op {
    Op::Entry { replaces: true, entry, xattrs: Vec::new(), content }
}

pub(super) fn place(side: Side, path: &[u8]) -> Place {
    Place { side, path: ByteBuf::from(path.to_vec()), offset: 0 }
}
