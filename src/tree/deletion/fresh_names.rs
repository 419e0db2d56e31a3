//! Names for entries that are moved into a trash directory.

use crate::fs::rename;
use rustix::io::{Errno, Result};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Unused names for entries of a trash directory.
#[derive(Debug)]
pub(crate) struct FreshNames {
    /// This process and the current time, so that names of an earlier run are rarely tried.
    prefix: String,
    next: AtomicU64,
}

impl FreshNames {
    pub(crate) fn new() -> FreshNames {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        FreshNames { prefix: format!("{:x}.{now:x}", std::process::id()), next: AtomicU64::new(0) }
    }

    /// Renames an entry into `trash` under an unused name.
    pub(crate) fn rename(&self, from: BorrowedFd<'_>, name: &[u8], trash: BorrowedFd<'_>) -> Result<()> {
        loop {
            let fresh = format!("{}.{:x}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed));
            match rename::without_replacing(from, name, trash, fresh.as_str()) {
                Err(Errno::EXIST) => {}
                done => return done,
            }
        }
    }
}
