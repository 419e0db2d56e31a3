//! Sets metadata on inodes, in the order that the kernel requires, and with as few calls as possible on new files.

use super::attributes::{Attributes, Refused};
use super::fileattr::{self, FileAttr};
use super::target::Target;
use super::xattr;
use crate::fs::status::Status;
use crate::util::mutex::lock;
use rustix::fs::{FileType, Mode};
use rustix::io::{Errno, Result};
use std::os::fd::AsFd;
use std::sync::Mutex;

/// The permissions that new files do not get (umask(2)).
fn umask() -> u32 {
    static SETTING: Mutex<()> = Mutex::new(());
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or_else(|| {
        // The call returns the mask only while it sets one, for all threads. Two calls at once could leave the
        // temporary mask.
        let _alone = lock(&SETTING);
        let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
        rustix::process::umask(umask);
        umask.bits()
    })
}

/// How this process creates files, so that calls that would change nothing are skipped.
#[derive(Clone, Copy, Debug)]
pub struct Creator {
    uid: u32,
    gid: u32,
    umask: u32,
}

impl Creator {
    /// The settings of this process.
    pub fn current() -> Self {
        Creator { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw(), umask: umask() }
    }

    /// Whether this process has all rights.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Limits these attributes to this process's rights: an ordinary user owns all files they create, and does not get
    /// the set-user-id bit of another user. Returns whether that changed anything.
    pub fn within_rights<'a>(&self, attributes: Attributes<'a>) -> (Attributes<'a>, bool) {
        if self.is_root() || attributes.uid == self.uid {
            return (attributes, false);
        }
        (Attributes { uid: self.uid, mode: attributes.mode & !0o4000, ..attributes }, true)
    }

    /// Whether a new directory needs no [`Creator::make_private`], except for flags.
    pub fn is_private(&self, status: &Status) -> bool {
        (status.uid, status.gid, status.permissions()) == (self.uid, self.gid, 0o700)
    }

    /// Whether this process owns an inode.
    pub fn is_owner(&self, status: &Status) -> bool {
        status.uid == self.uid
    }

    /// Prepares a file that this process just created for its content: sets the flags that decide how data is stored.
    pub fn prepare(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<()> {
        if attributes.fileattr.decides_storage() {
            prepare(fd, attributes)?;
        }
        Ok(())
    }

    /// [`Creator::prepare`] for a file that may have inherited flags from its directory.
    pub fn prepare_inheriting(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<()> {
        xattr::remove_other_xattrs(&fd, attributes.xattrs)?.removed()?;
        prepare(fd, attributes)
    }

    /// Sets the attributes of an open file that this process just created with the permissions `created`. Calls that
    /// would change nothing are skipped, so the file must have inherited nothing from its directory
    /// ([`Creator::make_private`]).
    pub fn finish(&self, fd: impl AsFd, created: u32, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::File(fd.as_fd()), attributes, self.made(created))
    }

    /// [`Creator::finish`] without the times.
    pub fn finish_but_times(&self, fd: impl AsFd, created: u32, attributes: &Attributes<'_>) -> Result<Refused> {
        give_but_times(&Target::File(fd.as_fd()), attributes, self.made(created))
    }

    /// [`Creator::finish`] for a link, named pipe, device or socket, by its name in a directory. Links are not
    /// followed.
    pub fn finish_at(&self, dir: impl AsFd, name: &[u8], created: u32, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::Name(dir.as_fd(), name), attributes, self.made(created))
    }

    /// Sets the attributes of any open file or directory, except the [`SEALS`](super::SEALS).
    pub fn apply(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::File(fd.as_fd()), attributes, None)
    }

    /// [`Creator::apply`] without the times.
    pub fn apply_but_times(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<Refused> {
        give_but_times(&Target::File(fd.as_fd()), attributes, None)
    }

    /// [`Creator::apply`] for an inode that must not be opened, by its name in a directory. Links are not followed.
    pub fn apply_at(&self, dir: impl AsFd, name: &[u8], attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::Name(dir.as_fd(), name), attributes, None)
    }

    /// [`Creator::apply`] for an inode that must not be opened, by a descriptor from [`open_path`](super::open_path),
    /// which stays with its inode after renames.
    pub fn apply_node(&self, node: impl AsFd, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::Node(node.as_fd()), attributes, None)
    }

    /// Sets the given extended attributes of a new directory, and checks whether its owner can be set.
    /// [`Creator::end_directory`] sets the owner, mode, ACLs and times after all entries were created: until then
    /// entries must inherit nothing, neither a group (set-group-id, `grpid` mounts) nor a default ACL.
    pub fn begin_directory(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<Refused> {
        let target = Target::File(fd.as_fd());
        let mut refused = Refused::default();
        if !self.owns(attributes) {
            refused.ownership = is_refusal(target.chown(attributes.uid, attributes.gid))?;
            is_refusal(target.chown(self.uid, self.gid))?;
        }
        xattr::give(&target, attributes.xattrs, attributes.mode, true, &mut refused.xattrs)?;
        Ok(refused)
    }

    /// Sets the owner, mode, given extended attributes (the ACLs) and times of a directory.
    pub fn end_directory(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<()> {
        let target = Target::File(fd.as_fd());
        if !self.owns(attributes) {
            is_refusal(target.chown(attributes.uid, attributes.gid))?;
        }
        give_fileattr(&target, attributes, true, &mut Refused::default());
        xattr::give(&target, attributes.xattrs, attributes.mode, true, &mut Vec::new())?;
        target.chmod(attributes.permissions())?;
        target.set_times(attributes.atime, attributes.mtime)
    }

    /// Gives an open file the owner and permissions that it would have if this process had just created it with the
    /// permissions `created`.
    pub fn make_like_new(&self, fd: impl AsFd, status: &Status, created: u32) -> Result<()> {
        let target = Target::File(fd.as_fd());
        if !self.is_owner(status) || status.gid != self.gid {
            target.chown(self.uid, self.gid)?;
        }
        let permissions = created & 0o777 & !self.umask;
        if status.permissions() == permissions { Ok(()) } else { target.chmod(permissions) }
    }

    /// Makes a directory of this process private: nobody else may enter it, and new entries belong to this process and
    /// inherit neither flags nor ACL entries.
    pub fn make_private(&self, dir: impl AsFd) -> Result<()> {
        self.make_private_with(dir, 0o700)
    }

    /// [`make_private`](Self::make_private), with these permissions: those of its owner, and special bits.
    pub fn make_private_with(&self, dir: impl AsFd, permissions: u32) -> Result<()> {
        let target = Target::File(dir.as_fd());
        is_refusal(target.chown(self.uid, self.gid))?;
        fileattr::clear_inherited_flags(&dir);
        xattr::remove_default_acl(&dir)?;
        target.chmod(permissions)
    }

    fn owns(&self, attributes: &Attributes<'_>) -> bool {
        (self.uid, self.gid) == (attributes.uid, attributes.gid)
    }

    /// The owner, group and permissions of a file created with these permissions.
    fn made(&self, created: u32) -> Option<(u32, u32, u32)> {
        Some((self.uid, self.gid, created & 0o777 & !self.umask))
    }
}

/// `present`: the known owner, group and permissions of the target.
fn give(target: &Target<'_>, attributes: &Attributes<'_>, present: Option<(u32, u32, u32)>) -> Result<Refused> {
    let refused = give_but_times(target, attributes, present)?;
    target.set_times(attributes.atime, attributes.mtime)?;
    Ok(refused)
}

fn give_but_times(
    target: &Target<'_>,
    attributes: &Attributes<'_>,
    present: Option<(u32, u32, u32)>,
) -> Result<Refused> {
    let mut refused = Refused::default();
    let permissions = attributes.permissions();
    let owned = present.is_some_and(|(uid, gid, _)| (uid, gid) == (attributes.uid, attributes.gid));
    if !owned {
        refused.ownership |= is_refusal(target.chown(attributes.uid, attributes.gid))?;
    }
    give_fileattr(target, attributes, present.is_some(), &mut refused);
    // The rights of this process must not be given away with another user's file.
    let gives_rights = !refused.ownership;
    xattr::give(target, attributes.xattrs, attributes.mode, gives_rights, &mut refused.xattrs)?;
    // Last: the permissions of the group are the mask of an access control list. With another list than the wanted one,
    // they would open the file to the users in that list.
    if FileType::from_raw_mode(attributes.mode) == FileType::Symlink {
        // A link has no mode.
    } else if !gives_rights && permissions & 0o6000 != 0 {
        target.chmod(permissions & 0o1777)?;
    } else if present.is_none_or(|(_, _, present)| present != permissions) {
        refused.ownership |= is_refusal(target.chmod(permissions))?;
    }
    Ok(refused)
}

/// `is_plain`: the target is known to have no flags and no project.
fn give_fileattr(target: &Target<'_>, attributes: &Attributes<'_>, is_plain: bool, refused: &mut Refused) {
    let wanted = attributes.fileattr;
    if is_plain && wanted.is_met_by(FileAttr::default()) {
        return;
    }
    if let Target::File(fd) = target {
        refused.fileattr = wanted.give(fd);
    }
}

fn prepare(fd: impl AsFd, attributes: &Attributes<'_>) -> Result<()> {
    attributes.fileattr.give_storage(&fd);
    let storage =
        attributes.xattrs.iter().filter(|(name, _)| name.starts_with(xattr::BTRFS)).cloned().collect::<Vec<_>>();
    xattr::give(&Target::File(fd.as_fd()), &storage, attributes.mode, true, &mut Vec::new())
}

pub(super) fn is_refusal(result: Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(false),
        Err(Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::OPNOTSUPP) => Ok(true),
        Err(error) => Err(error),
    }
}
