//! What is known of a candidate: where it lies, what its samples say, what it was compared with. The cache keeps it for
//! the next run.

use super::catalogue::FileId;
use crate::extents::map::Map;
use crate::util::digest::prefix;
use std::num::NonZeroU64;

/// What is known of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The same for files that lie in the same place: see [`Map::key`].
    pub(super) layout: u64,
    /// Where it begins on the disk.
    pub(super) first: u64,
    /// A hash of its samples: of all of it, if it is small.
    pub(super) sample: Option<NonZeroU64>,
    /// A hash of all of it, if the samples did not distinguish it from another file.
    pub(super) full: Option<NonZeroU64>,
    /// A file that the kernel compared it with, by that file's identity.
    pub(super) compared: Option<NonZeroU64>,
    /// Whether they were equal.
    pub(super) was_equal: bool,
    /// How many extents it has.
    pub(super) extents: u32,
    /// All of its data is shared.
    pub(super) shared: bool,
    /// Some of it is compressed.
    pub(super) encoded: bool,
    /// It is written in place.
    pub(super) nocow: bool,
    /// Its data lies beside the metadata: it takes no part, and this is all that is known of it.
    pub(super) inline: bool,
    /// It cannot be a destination: immutable, or not this user's.
    pub(super) fixed: bool,
    /// The last run that moved anything gave it other extents.
    pub(super) moved: bool,
    /// Its samples were read in this run: what they cover is in memory.
    pub(super) fresh: bool,
    /// It changed while it was looked at: nothing of this is to be kept.
    pub(super) changing: bool,
}

impl Facts {
    /// What of this the next run may know.
    pub(super) fn lasting(self) -> Facts {
        Facts { fresh: false, changing: false, ..self }
    }

    /// The kernel compared it with the file of this identity.
    pub(super) fn set_compared(&mut self, with: NonZeroU64, equal: bool) {
        (self.compared, self.was_equal) = (Some(with), equal);
    }

    /// Sets where the file lies.
    pub(super) fn set_place(&mut self, file: FileId, map: &Map) {
        self.layout = map.key().unwrap_or_else(|| no_layout(file));
        self.first = map.first_physical();
    }

    /// Sets where the file lies, and how.
    pub(super) fn set_map(&mut self, file: FileId, map: &Map) {
        self.set_place(file, map);
        self.extents = u32::try_from(map.pieces().len()).unwrap_or(u32::MAX);
        self.shared = map.is_wholly_shared();
        self.encoded = map.is_encoded();
    }
}

/// A number for a file of whose place nothing can be said: no other file has it.
fn no_layout(file: FileId) -> u64 {
    let mut hasher = blake3::Hasher::new_derive_key("pleach: a file that has no place of its own");
    short(hasher.update(&file.0.to_le_bytes()).finalize().as_bytes()).get()
}

/// The beginning of a hash, and never 0: enough where the kernel has the last word.
pub(super) fn short(hash: &[u8; 32]) -> NonZeroU64 {
    NonZeroU64::new(prefix(hash)).unwrap_or(NonZeroU64::MIN)
}

/// A candidate with what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) file: FileId,
    /// Its identity, by which others remember having been compared with it.
    pub(super) identity: NonZeroU64,
    pub(super) facts: Facts,
    /// It takes no part any more.
    pub(super) out: bool,
}

const _: () = assert!(size_of::<Member>() <= 80);
