//! The blocks that XFS needs for the lists of files' extents: a file of more extents than its inode has room for takes
//! some, and they are among the blocks that `df` shows as used.

use crate::dedupe::account::Account;
use crate::fs::status::Status;
use std::collections::HashMap;
use std::os::fd::AsFd;

/// The files whose extents changed.
#[derive(Debug, Default)]
pub(super) struct ExtentLists {
    files: HashMap<u32, Change>,
}

#[derive(Debug)]
struct Change {
    /// Bytes of all blocks of the file before, with those that it shares and those of its list.
    allocated: u64,
    /// Bytes of data that it had more, and less, before.
    dropped: u64,
    added: u64,
}

impl ExtentLists {
    /// To be called before the extents of a file change.
    pub(super) fn watch(&mut self, file: u32, open: impl AsFd) {
        if !self.files.contains_key(&file)
            && let Some(allocated) = allocated(open)
        {
            self.files.insert(file, Change { allocated, dropped: 0, added: 0 });
        }
    }

    /// A range of a file had so many bytes of data, and has so many now.
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
