//! The operations of a stream. The receiver reads the manifest of the base in step with them, so an unchanged entry
//! needs no more than its share of a count.
//!
//! Their order of fields is the format: `docs/stream.md` describes it.

use crate::snapshot::manifest::{self, Directory, Entry, Header, Origin, Time, Totals};
use crate::util::text;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The longest operation in bytes: a record with its limits, and its attributes.
pub(super) const LONGEST: usize = 32 << 20;

/// How much of a message is shown, in characters.
const MESSAGE: usize = 2000;

/// BLAKE3.
pub(crate) type Digest = [u8; 32];

/// Extended attributes: name, value.
pub(crate) type Xattrs = Vec<(ByteBuf, ByteBuf)>;

/// One step of the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Op {
    /// The sender offers snapshots, oldest first, and expects an [`Answer`] in reply.
    Offer(#[serde(deserialize_with = "manifest::deserialize_attributes")] Vec<Offered>),
    /// A snapshot begins.
    Begin(Box<Begin>),
    /// From here on, records that are taken over from the base have the device number `new` in place of `old`.
    Device { old: u64, new: u64 },
    /// The next records of the base, with everything that they describe. Only `recheck` may be another.
    Same { count: u64, recheck: bool },
    /// The snapshot lacks what the next records of the base describe.
    Gone { count: u64 },
    /// A directory. `replaces`: the next record of the base has its path.
    Directory {
        replaces: bool,
        directory: Directory,
        #[serde(deserialize_with = "manifest::deserialize_attributes")]
        xattrs: Xattrs,
    },
    /// Any other entry of the directory before.
    Entry {
        replaces: bool,
        entry: Entry,
        #[serde(deserialize_with = "manifest::deserialize_attributes")]
        xattrs: Xattrs,
        content: Content,
    },
    /// A part of the entry's content. Its bytes follow.
    Data { offset: u64, length: u64 },
    /// A part of the content that another file has.
    Clone { offset: u64, length: u64, from: Place },
    /// A hole in the content.
    Hole { offset: u64, length: u64 },
    /// The content is complete.
    Complete,
    /// Nothing follows.
    Bye,
    /// The snapshot is complete. The digest is that of all its records, as `digest` counts them.
    End { totals: Totals, digest: Digest },
}

/// The beginning of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) header: Header,
    /// The digest of the sender's manifest, which identifies the snapshot.
    pub(crate) identity: Digest,
    /// The snapshot that both sides have: its name, and the digest of the sender's manifest.
    pub(crate) base: Option<(String, Digest)>,
    /// How far it was received before.
    pub(crate) position: Position,
    /// The time of the tree's top, which no record has.
    pub(crate) top: Time,
    /// The filesystems that the entries were read from.
    #[serde(deserialize_with = "manifest::deserialize_attributes")]
    pub(crate) origins: Vec<Origin>,
    /// The sums, for progress.
    pub(crate) totals: Totals,
}

/// The content of an entry that is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    /// The record has all of it: a link, device, pipe or socket, or an empty file.
    InRecord,
    /// That of a whole other file.
    Of(Place),
    /// It is a further name of an entry that came before, at this path.
    LinkTo(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Parts follow, in the order of their offsets. What no part covers is as in the file `start`, which is first cut
    /// or extended to the size of the record; without `start` it is a hole.
    Parts { start: Option<Place> },
}

/// A place in a file that the receiver has. An empty path means the file of the place before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) side: Side,
    #[serde(with = "serde_bytes")]
    pub(crate) path: Vec<u8>,
    pub(crate) offset: u64,
}

/// The tree that has a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Side {
    /// The base.
    Base,
    /// The snapshot that is being made.
    New,
}

/// A snapshot of the sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offered {
    pub(crate) name: String,
    /// The digest of its manifest.
    pub(crate) identity: Digest,
}

/// What the receiver has of an offered snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// The whole snapshot.
    Complete,
    /// Nothing of it.
    Missing,
    /// The beginning of it, based on this snapshot.
    Begun { base: Option<String>, position: Position },
    /// Another snapshot of this name.
    Other,
}

/// How far a snapshot was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// The records that are complete.
    pub(crate) records: u64,
    /// The records of the base that were passed.
    pub(crate) base_records: u64,
    /// The bytes of the next entry's content that are complete.
    pub(crate) offset: u64,
}

/// What the receiver says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The states of the offered snapshots, in the order of the offer.
    Answer(#[serde(deserialize_with = "manifest::deserialize_attributes")] Vec<State>),
    /// A snapshot is complete and on the disk.
    Received,
    /// Nothing more can be received.
    Failed(Failure),
}

/// An error of the receiver, for the user of the sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Failure {
    /// The message for the user. The other side may say anything.
    pub(crate) fn reason(&self) -> std::io::Error {
        let message: String = self.message.chars().take(MESSAGE).collect();
        std::io::Error::other(text::escape_output(&message))
    }
}
