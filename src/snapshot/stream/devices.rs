//! The device numbers of filesystems, which may change with each mount.

use serde::{Deserialize, Serialize};

/// The device numbers of the base and of the new snapshot for one filesystem. They may change with each mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DevicePairs(Vec<(u64, u64)>);

impl DevicePairs {
    /// The number in the new snapshot for `old`.
    pub(crate) fn of(&self, old: u64) -> u64 {
        self.0.iter().find(|pair| pair.0 == old).map_or(old, |pair| pair.1)
    }

    /// Notes that `new` is the number for `old` from here on.
    pub(crate) fn note(&mut self, old: u64, new: u64) {
        self.0.retain(|pair| pair.0 != old);
        self.0.push((old, new));
    }
}
