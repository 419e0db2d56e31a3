//! The device numbers of filesystems, which may change with each mount.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The device numbers of the base and of the new snapshot for each filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DevicePairs(BTreeMap<u64, u64>);

impl DevicePairs {
    /// The most filesystems that a receiver remembers.
    pub(crate) const MOST: usize = 1 << 16;

    /// The number in the new snapshot for `old`.
    pub(crate) fn of(&self, old: u64) -> u64 {
        self.0.get(&old).copied().unwrap_or(old)
    }

    /// Notes that `new` is the number for `old` from here on.
    pub(crate) fn note(&mut self, old: u64, new: u64) {
        self.0.insert(old, new);
    }

    /// Whether there are more than a receiver remembers.
    pub(crate) fn are_too_many(&self) -> bool {
        self.0.len() > DevicePairs::MOST
    }
}
