//! The known facts about a candidate: where it lies, the hash of its samples, and the file it was compared with. The
//! cache keeps them for the next run.

use super::catalogue::FileId;
use crate::extents::map::Map;
use crate::util::digest::prefix;
use std::num::NonZeroU64;

/// The known facts about one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The same for files that lie in the same place: see [`Map::key`].
    pub(super) layout: u64,
    /// Where it begins on the disk.
    pub(super) first: u64,
    /// A hash of its samples, which cover the whole file if it is small.
    pub(super) sample: Option<NonZeroU64>,
    /// A hash of the whole file, if the samples did not distinguish it from another file.
    pub(super) full: Option<NonZeroU64>,
    /// The identity of a file that the kernel compared it with.
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
    /// Its data lies beside the metadata: it takes no part, and nothing else is known about it.
    pub(super) inline: bool,
    /// It cannot be a destination: immutable, or not this user's.
    pub(super) fixed: bool,
    /// The last run that moved anything gave the file other extents.
    pub(super) moved: bool,
    /// Its samples were read in this run, so the bytes they cover are in memory.
    pub(super) fresh: bool,
    /// It changed during the run: none of these facts may be kept.
    pub(super) changing: bool,
}

impl Facts {
    /// The facts that the next run may use.
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

    /// Sets where the file lies, and the properties of its extents.
    pub(super) fn set_map(&mut self, file: FileId, map: &Map) {
        self.set_place(file, map);
        self.extents = u32::try_from(map.pieces().len()).unwrap_or(u32::MAX);
        self.shared = map.is_wholly_shared();
        self.encoded = map.is_encoded();
    }
}

/// A layout number for a file with an unknown place: no other file has it.
fn no_layout(file: FileId) -> u64 {
    let mut hasher = blake3::Hasher::new_derive_key("pleach: a file that has no place of its own");
    short(hasher.update(&file.0.to_le_bytes()).finalize().as_bytes()).get()
}

/// The beginning of a hash, never 0. This is enough because the kernel compares the data anyway.
pub(super) fn short(hash: &[u8; 32]) -> NonZeroU64 {
    NonZeroU64::new(prefix(hash)).unwrap_or(NonZeroU64::MIN)
}

/// A candidate with the known facts about it.
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
