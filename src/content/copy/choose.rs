//! The table of `auto`: which engine copies what a clone did not. The reasons, with their figures, are in
//! `docs/copying.md`.

use super::engine::Engine;
use crate::fs::filesystem::Kind;

/// From this size on, in bytes, writing past the page cache pays: what that saves is the kernel's second copy of each
/// byte, and the waiting for all of it at the sync.
const DIRECT: u64 = 16 << 20;

/// Up to this size, in bytes, many files under way at once pay: opening, creating and waiting is most of what they take.
const RING: u64 = 4096;

/// How many of a group those have to be.
const MANY: usize = 32;

/// What is known of a file to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its size, in bytes.
    pub(super) size: u64,
    /// The filesystem of the copy, where that is known.
    pub(super) destination: Option<Kind>,
    /// Whether BLAKE3 of the content is wanted.
    pub(super) hashed: bool,
}

/// How it is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) engine: Engine,
    /// What copies short ranges between holes.
    pub(super) scattered: Engine,
    /// Whether it is written past the page cache, if it has no holes.
    pub(super) direct: bool,
}

/// The plan for a file: by the engine that was named, else by the table.
pub(super) fn plan(named: Option<Engine>, facts: &Facts) -> Plan {
    match named {
        None | Some(Engine::Clone) => by_table(facts),
        Some(engine) => Plan { engine, scattered: engine, direct: is_direct(facts) },
    }
}

fn by_table(facts: &Facts) -> Plan {
    // They are in memory, for they were asked for ahead. Only who hashes them has to look at them.
    let scattered = if facts.hashed { Engine::Buffered } else { Engine::Sendfile };
    Plan { engine: Engine::Buffered, scattered, direct: is_direct(facts) }
}

/// Whether a small file, with others of its directory, goes through a ring (`engines::uring::files`).
pub fn goes_by_ring(named: Option<Engine>, size: u64, destination: Option<Kind>) -> bool {
    match named {
        None => size <= RING && destination == Some(Kind::Xfs),
        Some(engine) => engine == Engine::Uring,
    }
}

/// Whether so many files of a group are worth the turns of a ring.
pub fn ring_pays(named: Option<Engine>, files: usize) -> bool {
    files >= if named.is_none() { MANY } else { 1 }
}

/// Btrfs copies what is written past the page cache into it first, to have checksums of what cannot change meanwhile.
fn is_direct(facts: &Facts) -> bool {
    facts.size >= DIRECT && matches!(facts.destination, Some(Kind::Xfs | Kind::Ext4))
}
