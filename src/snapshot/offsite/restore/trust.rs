//! Which existing files a restore may keep or write to, and which permissions they lose first.
//!
//! The library writes into the file that has the name, and changes its metadata by its name. So a file that its past
//! owner, writers or readers must not share with the restored one is removed before. `tree::writer::Rights` has the
//! rule for owners and writers. A file that gets other content must also have no readers that the new one lacks.

use crate::fs::filesystem::Kind;
use crate::fs::metadata::{ACCESS_ACL, Attributes, CAPABILITIES, Creator, FileAttr, Xattr, xattr};
use crate::fs::status::{Status, Time};
use crate::tree::writer::{Rights, keeps_owners};
use rustic_core::repofile::Node;
use rustix::fs::{Mode, OFlags, XattrFlags, fremovexattr, fsetxattr};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The beginning of the names of files that find out whether a filesystem stores owners.
const TEMPORARY: &str = ".pleach-restore.";
/// The permissions of group and others.
const OTHERS: u32 = 0o077;
const GROUP: u32 = 0o070;

/// The judge of existing files.
pub(super) struct Trust {
    creator: Creator,
    is_dry_run: bool,
    /// The filesystems that were asked whether they store owners.
    owners: RefCell<HashMap<u64, bool>>,
}

impl Trust {
    pub(super) fn new(is_dry_run: bool) -> Trust {
        Trust { creator: Creator::current(), is_dry_run, owners: RefCell::default() }
    }

    /// Whether an existing file with the right content may get the metadata of its node.
    pub(super) fn may_stay(&self, to: &Path, found: &Metadata, node: &Node) -> bool {
        let (rights, status) = (rights(node), status(found));
        let has_same_rights =
            (rights.uid, rights.gid, rights.mode & 0o7777) == (status.uid, status.gid, found.mode() & 0o7777);
        if rights.is_foreign(&status, &self.creator) || rights.need_new_inode(&status, &self.creator) {
            return !self.keeps_owners(to, found);
        }
        // Its metadata is that of all its names.
        if found.nlink() > rights.nlink.max(1) && !has_same_rights {
            return false;
        }
        let capabilities = attribute(node, CAPABILITIES).filter(|_| self.creator.is_root());
        capabilities.is_none() || xattr(to, CAPABILITIES).as_deref() == capabilities || !self.keeps_owners(to, found)
    }

    /// Whether an existing file may get the content and the metadata of its node.
    pub(super) fn may_be_filled(&self, to: &Path, found: &Metadata, node: &Node) -> bool {
        if found.nlink() > 1 || !self.may_stay(to, found, node) {
            return false;
        }
        let rights = rights(node);
        let others = found.mode() & OTHERS;
        let has_other_readers = others & !rights.mode != 0
            || (others & GROUP != 0 && found.gid() != rights.gid)
            || (others & GROUP != 0
                && xattr(to, ACCESS_ACL).is_some_and(|list| attribute(node, ACCESS_ACL) != Some(&*list)));
        !has_other_readers || !self.keeps_owners(to, found)
    }

    /// Takes permissions from an entry that its node does not give, and sets its access control list. The library sets
    /// the mode first, and the mode would open the entry to the users of another list. What fails here, the library
    /// tries again and reports.
    pub(super) fn tighten(&self, to: &Path, found: &Metadata, node: &Node) {
        let (wanted, present) = (attribute(node, ACCESS_ACL), xattr(to, ACCESS_ACL));
        let (rights, has_same_list) = (rights(node), present.as_deref() == wanted);
        let has_same_owner = (found.uid(), found.gid()) == (rights.uid, rights.gid);
        let is_open = found.mode() & OTHERS != 0 || (found.is_dir() && found.uid() != rights.uid);
        let is_tight = has_same_list && (!is_open || (has_same_owner && !found.is_dir()));
        if is_tight && wanted.is_none() {
            return;
        }
        let kind = if found.is_dir() { OFlags::DIRECTORY } else { OFlags::NONBLOCK };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC | kind;
        let Ok(fd) = rustix::fs::open(to, flags, Mode::empty()) else { return };
        let Ok(status) = Status::of(&fd) else { return };
        // XFS shows a list to root a second time, under another name. The library removes that attribute, and with it
        // the list. So there the list goes now, and the library sets it.
        let is_set_later = wanted.is_some() && Kind::of(&fd).is_ok_and(|kind| kind == Kind::Xfs);
        if is_tight && !is_set_later {
            return;
        }
        let list: Vec<Xattr> = wanted.map(|list| (ACCESS_ACL.into(), list.to_vec())).into_iter().collect();
        let Rights { uid, gid, mode, .. } = rights;
        let narrowed = if found.is_dir() {
            self.creator.narrow_directory(&fd, &status, (uid, gid, mode), || wanted.map(<[u8]>::to_vec))
        } else {
            let (atime, mtime) = (Time::default(), Time::default());
            let attributes = Attributes { uid, gid, mode, atime, mtime, xattrs: &list, fileattr: FileAttr::default() };
            self.creator.narrow(&fd, &status, &attributes)
        };
        if narrowed.is_err() || (has_same_list && !is_set_later) {
            return;
        }
        let _ = match wanted.filter(|_| !is_set_later) {
            Some(list) => fsetxattr(&fd, ACCESS_ACL, list, XattrFlags::empty()),
            None => fremovexattr(&fd, ACCESS_ACL),
        };
    }

    /// Whether the filesystem of an entry shows who owns it. Otherwise a new file would be no better.
    fn keeps_owners(&self, to: &Path, found: &Metadata) -> bool {
        let ask = || {
            let dir = to.parent().and_then(|dir| File::open(dir).ok())?;
            keeps_owners(dir.as_fd(), TEMPORARY, &self.creator).ok()
        };
        // In doubt it does.
        *self.owners.borrow_mut().entry(found.dev()).or_insert_with(|| self.is_dry_run || ask().unwrap_or(true))
    }
}

/// The rights of an entry of the store. What it lacks is as in a new file.
fn rights(node: &Node) -> Rights {
    let uid = node.meta.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let gid = node.meta.gid.unwrap_or_else(|| rustix::process::getegid().as_raw());
    let kind = if node.is_dir() { libc::S_IFDIR } else { libc::S_IFREG };
    Rights { uid, gid, mode: kind | node.meta.mode.map_or(0o600, permissions), nlink: node.meta.links }
}

/// The permissions of a mode as Go has it, the language of restic.
fn permissions(mode: u32) -> u32 {
    let bits = [(0o4000, 1 << 23), (0o2000, 1 << 22), (0o1000, 1 << 20)];
    bits.into_iter().filter(|(_, go)| mode & go != 0).fold(mode & 0o777, |all, (bit, _)| all | bit)
}

fn status(found: &Metadata) -> Status {
    let (mode, uid, gid, nlink) = (found.mode(), found.uid(), found.gid(), found.nlink());
    Status { mode, uid, gid, nlink, ..Status::default() }
}

/// An extended attribute of an entry of the store.
fn attribute<'n>(node: &'n Node, name: &[u8]) -> Option<&'n [u8]> {
    let found = node.meta.extended_attributes.iter().find(|attribute| attribute.name.as_bytes() == name)?;
    Some(found.value.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustic_core::repofile::{Metadata, NodeType};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown};

    #[test]
    fn a_mode_of_go_has_its_bits() {
        assert_eq!(permissions(0o755 | 1 << 23 | 1 << 31), 0o4755);
        assert_eq!(permissions(0o640 | 1 << 22 | 1 << 20), 0o3640);
    }

    #[test]
    fn files_of_others_and_files_with_more_readers_are_not_written() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let to = dir.path().join("file");
        fs::write(&to, b"old").unwrap();
        let trust = Trust::new(false);
        let own = fs::metadata(&to).unwrap();
        let judge = |mode: u32, wanted: u32| {
            fs::set_permissions(&to, Permissions::from_mode(mode)).unwrap();
            let meta = Metadata {
                uid: Some(own.uid()),
                gid: Some(own.gid()),
                mode: Some(wanted),
                links: 1,
                ..Metadata::default()
            };
            let node = Node::new_node("file".as_ref(), NodeType::File, meta);
            let found = fs::metadata(&to).unwrap();
            (trust.may_stay(&to, &found, &node), trust.may_be_filled(&to, &found, &node))
        };
        assert_eq!(judge(0o600, 0o644), (true, true));
        assert_eq!(judge(0o644, 0o644), (true, true));
        assert_eq!(judge(0o644, 0o600), (true, false));
        assert_eq!(judge(0o755, 0o755 | 1 << 23), (false, false));
        if rustix::process::geteuid().is_root() {
            chown(&to, Some(4242), Some(own.gid())).unwrap();
            assert_eq!(judge(0o600, 0o644), (false, false));
        }
    }
}
