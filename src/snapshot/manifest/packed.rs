//! Blocks that pass from one manifest to another as they are, neither unpacked nor packed again.

use super::layout::Digest;

/// A block as it is in the file, checked with its digest.
#[derive(Debug)]
pub(crate) struct PackedBlock<'r> {
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// Their digest.
    pub(super) digest: Digest,
    /// Its unpacked size.
    pub(super) raw: u32,
    /// Its first record.
    pub(super) key: RecordKey<'r>,
    /// The first record of the next block. `None`: it is the last block.
    pub(super) next: Option<RecordKey<'r>>,
}

/// The place of a record in the order of a manifest: the path of its directory, and its name. A directory's own record
/// has the empty name.
pub(crate) type RecordKey<'r> = (&'r [u8], &'r [u8]);
