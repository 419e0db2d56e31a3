//! Owner, mode, extended attributes (ACLs and capabilities among them) and times: read from one inode, given to another.
//! Flags and project ids are in `fileattr`.
//!
//! The order is the kernel's: a change of owner drops set-id bits and capabilities, so owner first, then mode, then
//! flags (Btrfs sets an attribute of its own with them), then attributes, then times. What the destination cannot take is
//! handed back, so that the manifest can keep it.

mod fileattr;
mod xattr;

pub use fileattr::{FLAGS, FileAttr, FileAttrs, NOCOW, PROJECT_INHERIT, RefusedAttr, SEALS, has_project, letters};

pub use xattr::{
    Others, Xattr, has_unlisted_xattrs, has_unlisted_xattrs_at, is_alias, is_inherited, readable_xattrs,
    readable_xattrs_at, remove_other_xattrs, remove_other_xattrs_of_node, xattrs, xattrs_at,
};

use crate::fs::status::{Status, Time, timestamps};
use crate::util::mutex::lock;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, XattrFlags};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Mutex;

/// What can be given to an inode besides its content.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Type and permission bits; the type is ignored.
    pub mode: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// All extended attributes.
    pub xattrs: &'a [Xattr],
    /// Flags and project id; the flags in [`SEALS`] are not given.
    pub fileattr: FileAttr,
}

impl<'a> Attributes<'a> {
    /// Those of `status`, with `xattrs`, and without flags.
    pub fn of(status: &Status, xattrs: &'a [Xattr]) -> Self {
        let Status { uid, gid, mode, atime, mtime, .. } = *status;
        Attributes { uid, gid, mode, atime, mtime, xattrs, fileattr: FileAttr::default() }
    }

    /// These with flags and a project id.
    pub fn with(self, fileattr: FileAttr) -> Self {
        Attributes { fileattr, ..self }
    }

    fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }
}

/// What a destination could not take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The owner or the mode (permission).
    pub ownership: bool,
    /// Extended attributes: no permission, or a kind that the filesystem does not have.
    pub xattrs: Vec<Xattr>,
    /// Flags and the project id.
    pub fileattr: RefusedAttr,
}

/// The mask of permissions that new files do not get (umask(2)).
fn umask() -> u32 {
    static SETTING: Mutex<()> = Mutex::new(());
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let told = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    told.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or_else(|| {
        // The call tells it by setting it, for all threads: two of them at once would leave what one set to learn it.
        let _alone = lock(&SETTING);
        let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
        rustix::process::umask(umask);
        umask.bits()
    })
}

/// How this process's new files come into being, so that calls that would change nothing are not made.
#[derive(Clone, Copy, Debug)]
pub struct Creator {
    uid: u32,
    gid: u32,
    umask: u32,
}

impl Creator {
    /// This process.
    pub fn current() -> Self {
        Creator { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw(), umask: umask() }
    }

    /// Whether this process may do all.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// These attributes as far as this process's rights go: an ordinary user's files are their own, and another's set-user-id
    /// bit is not for them. Whether that makes a difference.
    pub fn within_rights<'a>(&self, attributes: Attributes<'a>) -> (Attributes<'a>, bool) {
        if self.is_root() || attributes.uid == self.uid {
            return (attributes, false);
        }
        (Attributes { uid: self.uid, mode: attributes.mode & !0o4000, ..attributes }, true)
    }

    /// Whether a new directory is already what [`Creator::make_private`] makes of it, flags apart.
    pub fn is_private(&self, status: &Status) -> bool {
        (status.uid, status.gid, status.permissions()) == (self.uid, self.gid, 0o700)
    }

    /// Whether an inode is this process's own.
    pub fn is_owner(&self, status: &Status) -> bool {
        status.uid == self.uid
    }

    /// Prepares a file that this process created a moment ago for its content: what decides how that is stored comes first.
    pub fn prepare(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<()> {
        if attributes.fileattr.decides_storage() {
            prepare(fd, attributes)?;
        }
        Ok(())
    }

    /// [`Creator::prepare`] for a file that may have inherited something from its directory.
    pub fn prepare_inheriting(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<()> {
        remove_other_xattrs(&fd, attributes.xattrs)?.removed()?;
        prepare(fd, attributes)
    }

    /// Gives an open file that this process created a moment ago, asking for the permissions `created`, its attributes.
    /// Calls that would change nothing are not made: the directory must hand nothing down ([`Creator::make_private`]).
    pub fn finish(&self, fd: impl AsFd, created: u32, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::File(fd.as_fd()), attributes, self.made(created))
    }

    /// [`Creator::finish`] without the times.
    pub fn finish_but_times(&self, fd: impl AsFd, created: u32, attributes: &Attributes<'_>) -> Result<Refused> {
        give_but_times(&Target::File(fd.as_fd()), attributes, self.made(created))
    }

    /// [`Creator::finish`] for a link, named pipe, device or socket, named in its directory. Links are not followed.
    pub fn finish_at(&self, dir: impl AsFd, name: &[u8], created: u32, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::Name(dir.as_fd(), name), attributes, self.made(created))
    }

    /// Gives an open file or directory of any history its attributes, the [`SEALS`] apart.
    pub fn apply(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::File(fd.as_fd()), attributes, None)
    }

    /// [`Creator::apply`] without the times.
    pub fn apply_but_times(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<Refused> {
        give_but_times(&Target::File(fd.as_fd()), attributes, None)
    }

    /// [`Creator::apply`] for an inode that is not to be opened, named in its directory. Links are not followed.
    pub fn apply_at(&self, dir: impl AsFd, name: &[u8], attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::Name(dir.as_fd(), name), attributes, None)
    }

    /// [`Creator::apply`] for an inode that is not to be opened, by a descriptor from [`open_path`]: no renaming can turn
    /// that to another inode.
    pub fn apply_node(&self, node: impl AsFd, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::Node(node.as_fd()), attributes, None)
    }

    /// Gives a new directory the given extended attributes and finds out whether it may have its owner. It gets that, its
    /// mode, ACLs and times with [`Creator::end_directory`], when all its entries have been made: until then they must
    /// inherit nothing, neither a group (set-group-id, `grpid` mounts) nor a default ACL.
    pub fn begin_directory(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<Refused> {
        let target = Target::File(fd.as_fd());
        let mut refused = Refused::default();
        if !self.owns(attributes) {
            refused.ownership = is_refusal(target.chown(attributes.uid, attributes.gid))?;
            is_refusal(target.chown(self.uid, self.gid))?;
        }
        xattr::give(&target, attributes, &mut refused)?;
        Ok(refused)
    }

    /// Gives a directory its owner, its mode, the given extended attributes (the ACLs) and its times.
    pub fn end_directory(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<()> {
        let target = Target::File(fd.as_fd());
        if !self.owns(attributes) {
            is_refusal(target.chown(attributes.uid, attributes.gid))?;
        }
        target.chmod(attributes.permissions())?;
        give_fileattr(&target, attributes, true, &mut Refused::default());
        xattr::give(&target, attributes, &mut Refused::default())?;
        target.set_times(attributes.atime, attributes.mtime)
    }

    /// Makes sure that what is made in a directory of this process's own is its own too, nobody else's to enter, and gets
    /// neither flags nor ACL entries from it.
    pub fn make_private(&self, dir: impl AsFd) -> Result<()> {
        let target = Target::File(dir.as_fd());
        is_refusal(target.chown(self.uid, self.gid))?;
        fileattr::hand_nothing_down(&dir);
        xattr::remove_default_acl(&dir)?;
        target.chmod(0o700)
    }

    fn owns(&self, attributes: &Attributes<'_>) -> bool {
        (self.uid, self.gid) == (attributes.uid, attributes.gid)
    }

    /// What a file is that was created with these permissions: owner, group, permissions.
    fn made(&self, created: u32) -> Option<(u32, u32, u32)> {
        Some((self.uid, self.gid, created & 0o777 & !self.umask))
    }
}

/// `present`: owner, group and permissions that the target is known to have.
fn give(target: &Target<'_>, attributes: &Attributes<'_>, present: Option<(u32, u32, u32)>) -> Result<Refused> {
    let refused = give_but_times(target, attributes, present)?;
    target.set_times(attributes.atime, attributes.mtime)?;
    Ok(refused)
}

/// Gives an open file or directory its times (futimens(3)).
pub fn set_times(fd: impl AsFd, atime: Time, mtime: Time) -> Result<()> {
    Target::File(fd.as_fd()).set_times(atime, mtime)
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
    if FileType::from_raw_mode(attributes.mode) == FileType::Symlink {
        // A link has no mode of its own.
    } else if refused.ownership && permissions & 0o6000 != 0 {
        // Somebody else's set-id bits on our own file would be a gift of our rights.
        target.chmod(permissions & 0o1777)?;
    } else if present.is_none_or(|(_, _, present)| present != permissions) {
        refused.ownership |= is_refusal(target.chmod(permissions))?;
    }
    give_fileattr(target, attributes, present.is_some(), &mut refused);
    xattr::give(target, attributes, &mut refused)?;
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
    let attributes = Attributes { xattrs: &storage, ..attributes.clone() };
    xattr::give(&Target::File(fd.as_fd()), &attributes, &mut Refused::default())
}

fn is_refusal(result: Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(false),
        Err(Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::OPNOTSUPP) => Ok(true),
        Err(error) => Err(error),
    }
}

/// What attributes are given to.
enum Target<'a> {
    File(BorrowedFd<'a>),
    Name(BorrowedFd<'a>, &'a [u8]),
    Node(BorrowedFd<'a>),
}

impl Target<'_> {
    fn chown(&self, uid: u32, gid: u32) -> Result<()> {
        let (owner, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        match self {
            Target::File(fd) => rustix::fs::fchown(fd, owner, group),
            Target::Name(dir, name) => rustix::fs::chownat(dir, *name, owner, group, AtFlags::SYMLINK_NOFOLLOW),
            Target::Node(node) => rustix::fs::chownat(node, b"".as_slice(), owner, group, AtFlags::EMPTY_PATH),
        }
    }

    fn chmod(&self, permissions: u32) -> Result<()> {
        let mode = Mode::from_bits_truncate(permissions);
        match self {
            Target::File(fd) => rustix::fs::fchmod(fd, mode),
            Target::Name(dir, name) => {
                // fchmodat(2) knows no "do not follow" before Linux 6.6, so the node is pinned first.
                let node = open_path(*dir, name)?;
                rustix::fs::chmod(magic_link(&node, b"").as_slice(), mode)
            }
            Target::Node(node) => rustix::fs::chmod(magic_link(node, b"").as_slice(), mode),
        }
    }

    fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Target::File(fd) => rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            Target::Name(dir, node) => {
                rustix::fs::lsetxattr(magic_link(dir, node).as_slice(), name, value, XattrFlags::empty())
            }
            // The link is followed to the node itself and, where that is a symbolic link, no further.
            Target::Node(node) => {
                rustix::fs::setxattr(magic_link(node, b"").as_slice(), name, value, XattrFlags::empty())
            }
        }
    }

    fn set_times(&self, atime: Time, mtime: Time) -> Result<()> {
        let times = timestamps(atime, mtime);
        match self {
            Target::File(fd) => rustix::fs::futimens(fd, &times),
            Target::Name(dir, name) => rustix::fs::utimensat(dir, *name, &times, AtFlags::SYMLINK_NOFOLLOW),
            Target::Node(node) => {
                rustix::fs::utimensat(CWD, magic_link(node, b"").as_slice(), &times, AtFlags::empty())
            }
        }
    }
}

/// Opens a node without its content: a handle that no renaming can turn to another inode.
pub fn open_path(dir: impl AsFd, name: &[u8]) -> Result<std::os::fd::OwnedFd> {
    use rustix::fs::OFlags;
    rustix::fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// `/proc/self/fd/N/NAME`: a path for the calls that have no version with a directory descriptor.
fn magic_link(dir: impl AsFd, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd()).into_bytes();
    if !name.is_empty() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    path
}
