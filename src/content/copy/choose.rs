//! Which engine copies a file, if the user named none. `docs/design/engines.md` has the reasons and their figures.

use super::engine::Engine;
use super::engines;
use crate::fs::filesystem::Kind;

/// Files of at least this size, in bytes, are written past the page cache. This saves the kernel's second copy of each
/// byte, and the wait for all data at the sync.
const DIRECT: u64 = 16 << 20;

/// Files of at most this size, in bytes, are worth copying many at once: most of their cost is opening, creating and
/// waiting.
const RING: u64 = 4096;

/// A group with fewer small files is copied one by one.
const MANY: usize = 32;

/// The known facts about a file that will be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its size, in bytes.
    pub(super) size: u64,
    /// The filesystem of the copy, if known.
    pub(super) destination: Option<Kind>,
    /// Whether BLAKE3 of the content was requested.
    pub(super) hashed: bool,
}

/// How to copy a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) engine: Engine,
    /// The engine for short ranges between holes.
    pub(super) scattered: Engine,
    /// Whether to write past the page cache, if the file has no holes.
    pub(super) direct: bool,
}

/// The plan for a file: with the named engine, otherwise with the best one for the file.
pub(super) fn plan(named: Option<Engine>, facts: &Facts) -> Plan {
    match named.filter(|engine| !engines::clones(*engine)) {
        None => by_table(facts),
        Some(engine) => Plan { engine, scattered: engine, direct: is_direct(facts) },
    }
}

fn by_table(facts: &Facts) -> Plan {
    // Short ranges were prefetched and are in memory. Only hashing needs them in this process.
    let scattered = if facts.hashed { Engine::Buffered } else { Engine::Sendfile };
    Plan { engine: Engine::Buffered, scattered, direct: is_direct(facts) }
}

/// Whether a small file is copied together with others of its directory (`small_files`).
pub fn goes_by_ring(named: Option<Engine>, size: u64, destination: Option<Kind>) -> bool {
    match named {
        None => size <= RING && destination == Some(Kind::Xfs),
        Some(engine) => engines::takes_groups(engine),
    }
}

/// Whether a group has enough small files for a ring to pay.
pub fn ring_pays(named: Option<Engine>, files: usize) -> bool {
    files >= if named.is_none() { MANY } else { 1 }
}

/// Btrfs copies direct writes into the page cache first, so that the data cannot change while it computes checksums.
fn is_direct(facts: &Facts) -> bool {
    facts.size >= DIRECT && matches!(facts.destination, Some(Kind::Xfs | Kind::Ext4))
}
