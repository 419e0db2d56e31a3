//! Takes permissions from an existing inode that its final metadata does not give, before anything else is changed.
//!
//! Owner, mode and access control list are set by separate calls. In between, the old permissions would apply to the
//! new owner and group, or a new mask to the users of the old list. So the inode first keeps only the permissions that
//! both the old and the new metadata give. The rest comes last, with the final mode.

use super::attributes::Attributes;
use super::creator::Creator;
use super::target::Target;
use super::xattr;
use crate::fs::status::Status;
use rustix::fs::FileType;
use rustix::io::Result;
use std::os::fd::AsFd;

/// The permissions of a group. With an access control list, they are its mask: no user and group in the list has more.
const GROUP: u32 = 0o070;

impl Creator {
    /// Narrows an open file with this status that will get these attributes. Nothing happens if owner, group and list
    /// stay, because then one chmod(2) changes everything.
    ///
    /// # Errors
    /// Errors of the calls, except if this process may not change the inode.
    pub fn narrow(&self, fd: impl AsFd, status: &Status, attributes: &Attributes<'_>) -> Result<()> {
        narrow(&Target::File(fd.as_fd()), status, attributes)
    }

    /// [`Creator::narrow`] for an inode that must not be opened, by a descriptor from [`open_path`](super::open_path).
    ///
    /// # Errors
    /// Like [`Creator::narrow`].
    pub fn narrow_node(&self, node: impl AsFd, status: &Status, attributes: &Attributes<'_>) -> Result<()> {
        narrow(&Target::Node(node.as_fd()), status, attributes)
    }

    /// Narrows an open directory with this status that will get another owner, group or mode, or the access control
    /// list `acl`, when everything in it is done. A directory of somebody else gets its owner now. The permissions of
    /// its owner stay, because this process may need them.
    ///
    /// # Errors
    /// Like [`Creator::narrow`].
    pub fn narrow_directory(
        &self,
        dir: impl AsFd,
        status: &Status,
        (uid, gid, mode): (u32, u32, u32),
        acl: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Result<()> {
        let target = Target::File(dir.as_fd());
        if status.uid != uid && !self.is_owner(status) {
            refusable(target.chown(uid, status.gid))?;
        }
        let mut kept = status.permissions() & 0o777 & (mode | 0o700);
        if status.gid != gid || has_other_acl(&target, status, acl) {
            kept &= !GROUP;
        }
        if kept == status.permissions() & 0o777 {
            return Ok(());
        }
        // The sticky bit protects entries of other users, and set-group-id decides on the group of new ones.
        refusable(target.chmod(kept | status.permissions() & 0o3000))
    }
}

fn narrow(target: &Target<'_>, status: &Status, attributes: &Attributes<'_>) -> Result<()> {
    if status.file_type() == FileType::Symlink {
        return Ok(());
    }
    let acl = || xattr::access_acl(attributes.xattrs).map(<[u8]>::to_vec);
    let has_other_group = status.gid != attributes.gid || has_other_acl(target, status, acl);
    if status.uid == attributes.uid && !has_other_group {
        return Ok(());
    }
    let mut kept = status.permissions() & attributes.permissions() & 0o777;
    if has_other_group {
        kept &= !GROUP;
    }
    if kept == status.permissions() { Ok(()) } else { refusable(target.chmod(kept)) }
}

/// Whether an inode has an access control list that gives somebody something, and that is not the wanted one.
fn has_other_acl(target: &Target<'_>, status: &Status, wanted: impl FnOnce() -> Option<Vec<u8>>) -> bool {
    if status.mode & GROUP == 0 {
        return false;
    }
    let present = target.access_acl();
    present.is_some() && present != wanted()
}

/// What this process may not change, it does not give to anybody either.
fn refusable(result: Result<()>) -> Result<()> {
    super::creator::is_refusal(result).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_permissions_that_both_give_are_kept() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let open = File::open(dir.path()).unwrap();
        let creator = Creator::current();
        let narrowed = |mode, wanted, other_group: bool| {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            let status = Status::of(&open).unwrap();
            let gid = status.gid + u32::from(other_group);
            creator.narrow_directory(&open, &status, (status.uid, gid, wanted), || None).unwrap();
            Status::of(&open).unwrap().permissions()
        };
        assert_eq!(narrowed(0o777, 0o755, false), 0o755);
        assert_eq!(narrowed(0o1777, 0o500, false), 0o1700);
        assert_eq!(narrowed(0o750, 0o777, false), 0o750);
        assert_eq!(narrowed(0o755, 0o755, true), 0o705);
    }
}
