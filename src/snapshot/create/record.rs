//! What became of one entry: its record for the manifest, and what it cost.

use super::stats::Stats;
use crate::metadata::Refused;
use crate::snapshot::manifest::{Entry, Meta};

/// An entry that has been brought in, and what that cost.
pub(super) struct Brought {
    pub(super) entry: Entry,
    pub(super) cost: Stats,
}

/// Adds what the tree refused to a record.
pub(super) fn keep(meta: &mut Meta, refused: Refused) {
    meta.kept_here |= refused.ownership;
    meta.kept_xattrs.extend(refused.xattrs.into_iter().map(|(name, value)| (name.into(), value.into())));
}
