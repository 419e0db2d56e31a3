//! How long a data extent is on the disk, which FIEMAP does not tell of compressed ones. For root only.
//!
//! Source: `include/uapi/linux/btrfs_tree.h`.

use super::tree::{self, EXTENT_ITEM, EXTENT_TREE, Key, Step};
use rustix::io::Result;
use std::os::fd::AsFd;

/// The length of the data extent at this address; `None` if there is none.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`.
pub fn extent_length(fd: impl AsFd, address: u64) -> Result<Option<u64>> {
    let (first, last) = (Key::new(address, EXTENT_ITEM, 0), Key::new(address, EXTENT_ITEM, u64::MAX));
    let mut length = None;
    tree::search(fd, EXTENT_TREE, first, last, |item| {
        length = Some(item.key.offset);
        Step::Stop
    })?;
    Ok(length)
}
