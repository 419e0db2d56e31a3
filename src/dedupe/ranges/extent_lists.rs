//! The blocks that XFS needs for files' extent lists. If a file has more extents than fit into its inode, the list
//! takes blocks of its own, which `df` counts as used.

use crate::dedupe::account::Account;
use crate::fs::status::Status;
use std::collections::HashMap;
use std::os::fd::AsFd;

/// The files with changed extents.
#[derive(Debug, Default)]
pub(super) struct ExtentLists {
    files: HashMap<u32, Change>,
}

#[derive(Debug)]
struct Change {
    /// Bytes of all blocks of the file before the change, including shared blocks and the blocks of its list.
    allocated: u64,
    /// Bytes of data that the file has dropped, and added, since.
    dropped: u64,
    added: u64,
}

impl ExtentLists {
    /// Must be called before the extents of a file change.
    pub(super) fn watch(&mut self, file: u32, open: impl AsFd) {
        if !self.files.contains_key(&file)
            && let Some(allocated) = allocated(open)
        {
            self.files.insert(file, Change { allocated, dropped: 0, added: 0 });
        }
    }

    /// Records the bytes of data that a range of a file had before and has now.
    pub(super) fn change(&mut self, file: u32, before: u64, after: u64) {
        if let Some(change) = self.files.get_mut(&file) {
            change.dropped += before.saturating_sub(after);
            change.added += after.saturating_sub(before);
        }
    }

    /// The files that were watched.
    pub(super) fn files(&self) -> Vec<u32> {
        self.files.keys().copied().collect()
    }

    /// Books how the list of a file grew or shrank. Its data is booked already.
    pub(super) fn book(&mut self, file: u32, open: impl AsFd, account: &Account) {
        if let Some(change) = self.files.remove(&file)
            && let Some(now) = allocated(open)
        {
            account.resize_list(change.allocated + change.added, now + change.dropped);
        }
    }
}

fn allocated(file: impl AsFd) -> Option<u64> {
    Status::of(file).ok().map(|status| status.allocated)
}
