//! The items of inodes: their status, their names, the entries of directories.
//!
//! Source: `include/uapi/linux/btrfs_tree.h`.

use super::tree::{self, DIR_INDEX, INODE_EXTREF, INODE_ITEM, INODE_REF, Item, Key, Step};
use rustix::io::Result;
use std::os::fd::AsFd;

/// The parts of `struct btrfs_inode_item` that show when an inode changed, and how it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    /// The transaction that created it.
    pub created: u64,
    /// The last transaction that changed anything in it, its access time too.
    pub changed: u64,
    /// How many names it has.
    pub nlink: u32,
    /// Its type and permissions.
    pub mode: u32,
}

impl Inode {
    /// The status in an item of the type `INODE_ITEM`. `None` if the item is too short.
    pub(crate) fn of(item: &Item<'_>) -> Option<Inode> {
        Some(Inode { created: item.u64(0)?, changed: item.u64(8)?, nlink: item.u32(40)?, mode: item.u32(52)? })
    }
}

/// All names of an inode of the subvolume `root`, however many, each with its directory. A deleted inode that is still
/// open has none.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`.
pub(crate) fn names(fd: impl AsFd, root: u64, number: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut names = Vec::new();
    let (first, last) = (Key::new(number, INODE_REF, 0), Key::new(number, INODE_EXTREF, u64::MAX));
    tree::search(fd, root, first, last, |item| {
        let mut rest = item.data;
        while let Some((directory, name, behind)) = next_name(item.key, rest) {
            names.push((directory, name.to_vec()));
            rest = behind;
        }
        Step::Next
    })?;
    Ok(names)
}

/// The next name in an item with names of an inode (`INODE_REF`, `INODE_EXTREF`), which has this key and the
/// remaining `data`: its directory, the name, and the data behind it. `None` at the end, or in an item of another type.
pub(super) fn next_name(key: Key, data: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    // Each name follows its directory (EXTREF), its index, and its own length.
    let (directory, rest) = match key.kind {
        INODE_REF => (key.offset, data),
        INODE_EXTREF => (u64::from_le_bytes(*data.first_chunk()?), &data[8..]),
        _ => return None,
    };
    let length = u16::from_le_bytes(*rest.get(8..)?.first_chunk()?);
    let (name, behind) = rest.get(10..)?.split_at_checked(length.into())?;
    Some((directory, name, behind))
}

/// The inode that an entry of a directory means (`DIR_INDEX`). `None` if the entry is a subvolume.
pub(crate) fn entry(item: &Item<'_>) -> Option<u64> {
    // The item begins with the key of the entry: an inode's, or a subvolume's (`BTRFS_ROOT_ITEM_KEY`).
    (item.key.kind == DIR_INDEX && item.u8(8)? == INODE_ITEM).then(|| item.u64(0)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_both_kinds_of_items() {
        let named = |name: &[u8]| [&7u64.to_le_bytes()[..], &(name.len() as u16).to_le_bytes(), name].concat();
        let two = [named(b"a"), named(b"bc")].concat();
        let key = Key::new(300, INODE_REF, 256);
        let (directory, name, rest) = next_name(key, &two).unwrap();
        assert_eq!((directory, name), (256, &b"a"[..]));
        assert_eq!(next_name(key, rest), Some((256, &b"bc"[..], &b""[..])));
        let extended = [&999u64.to_le_bytes()[..], &named(b"d")].concat();
        assert_eq!(next_name(Key::new(300, INODE_EXTREF, 1), &extended), Some((999, &b"d"[..], &b""[..])));
        assert_eq!(next_name(key, &two[..10]), None, "a name that does not fit its item");
        assert_eq!(next_name(key, b""), None);
    }

    #[test]
    fn items_that_are_too_short_have_no_inode() {
        let data = [7; 160];
        let item = |length| Item { key: Key::new(300, INODE_ITEM, 0), data: &data[..length] };
        assert!(Inode::of(&item(160)).is_some() && Inode::of(&item(55)).is_none());
        let entry_of = |kind| {
            let data = [&300u64.to_le_bytes()[..], &[kind], &[0; 21]].concat();
            entry(&Item { key: Key::new(256, DIR_INDEX, 2), data: &data })
        };
        assert_eq!((entry_of(1), entry_of(132)), (Some(300), None));
    }
}
