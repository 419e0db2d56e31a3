//! Which existing inodes may get new rights: another owner, set-id bits, capabilities, further names.
//!
//! Whoever owned an inode, or was allowed to write it, may still have it open or mapped, and can change its content at
//! any time, also after it was compared. So no such inode gets rights that its past owner or writers do not have. It is
//! replaced by a new inode with the wanted content. [`decide`](super::decide) says so, and [`Slot::open_existing`]
//! and [`Slot::link`] check it again with the inode that they have in hand.
//!
//! An inode that has exactly the wanted metadata already stays: it gets nothing.
//!
//! [`Slot::open_existing`]: super::Slot::open_existing
//! [`Slot::link`]: super::Slot::link

use crate::fs::metadata::Creator;
use crate::fs::status::Status;
use rustix::fs::FileType;

/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;
/// The permissions to write for others than the owner. With an access control list, the bit of the group is set if the
/// list lets anybody write.
const OTHERS_WRITE: u32 = 0o022;

/// The rights that an entry must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Type and permissions.
    pub(crate) mode: u32,
    /// The number of its names.
    pub(crate) nlink: u64,
}

/// What happens to an existing directory that a run enters.
pub(crate) enum Entering<'a> {
    /// It stays as it is.
    AsItIs,
    /// It gets these rights, and the access control list that the function returns, when everything in it is done.
    ToGive(Rights, &'a dyn Fn() -> Option<Vec<u8>>),
}

impl Rights {
    /// The rights of an inode with this status.
    pub(crate) fn of(status: &Status) -> Rights {
        let Status { uid, gid, mode, nlink, .. } = *status;
        Rights { uid, gid, mode, nlink }
    }

    /// The type of the entry.
    pub(crate) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Whether an existing inode belongs to somebody else: neither to the wanted owner nor to this process.
    pub(crate) fn is_foreign(&self, status: &Status, creator: &Creator) -> bool {
        status.uid != self.uid && !creator.is_owner(status)
    }

    /// Whether an existing inode must not get these rights, although it belongs to the right user.
    pub(crate) fn need_new_inode(&self, status: &Status, creator: &Creator) -> bool {
        if status.file_type() == FileType::Symlink {
            return false;
        }
        let has_all = (self.uid, self.gid, self.mode & 0o7777) == (status.uid, status.gid, status.permissions());
        let is_set_id = self.file_type() == FileType::RegularFile && self.mode & SET_ID != 0 && !has_all;
        if !creator.is_root() {
            // An ordinary user can give away only the own rights.
            return is_set_id && creator.is_owner(status) && (self.uid, self.gid) == (status.uid, status.gid);
        }
        let writers = status.mode & OTHERS_WRITE;
        let changes_owner = (self.uid, self.gid) != (status.uid, status.gid);
        is_set_id || (writers != 0 && changes_owner) || (writers & !self.mode != 0 && self.nlink > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_who_may_hold_an_inode_gain_nothing_by_it() {
        let creator = Creator::current();
        let own = Status { mode: 0o100_644, nlink: 1, ..Status::default() };
        let rights = Rights { uid: 5, gid: 5, ..Rights::of(&own) };
        assert!(rights.is_foreign(&Status { uid: 7, ..own }, &creator));
        assert!(!rights.is_foreign(&Status { uid: 5, ..own }, &creator));
        if !creator.is_root() {
            return;
        }
        assert!(!rights.is_foreign(&own, &creator) && !rights.need_new_inode(&own, &creator));
        let written = |mode: u32| Status { mode: 0o100_000 | mode, ..own };
        assert!(rights.need_new_inode(&written(0o664), &creator) && rights.need_new_inode(&written(0o646), &creator));
        let set_id = Rights { mode: 0o104_755, ..Rights::of(&own) };
        assert!(set_id.need_new_inode(&own, &creator) && !set_id.need_new_inode(&written(0o4755), &creator));
        // Only the mode changes: whoever may write it can do so anyway.
        assert!(!Rights::of(&own).need_new_inode(&written(0o664), &creator));
        assert!(Rights { nlink: 2, ..Rights::of(&own) }.need_new_inode(&written(0o664), &creator));
        let link = Status { mode: 0o120_777, ..own };
        assert!(!Rights { mode: link.mode, ..rights }.need_new_inode(&link, &creator));
    }
}
