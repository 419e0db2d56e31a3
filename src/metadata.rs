//! Owner, mode, extended attributes (ACLs and capabilities among them) and times: read from one inode, given to another.
//! Flags and project ids are in `fileattr`.
//!
//! The order is the kernel's: a change of owner drops set-id bits and capabilities, so owner first, then mode, then
//! flags (Btrfs sets an attribute of its own with them), then attributes, then times. What the destination cannot take is
//! handed back, so that the manifest can keep it.

mod fileattr;

pub use fileattr::{FLAGS, FileAttr, FileAttrs, NOCOW, PROJECT_INHERIT, RefusedAttr, SEALS, has_project, letters};

use crate::mutex::lock;
use crate::status::{Status, Time, timestamps};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, XattrFlags};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Mutex;

/// An extended attribute: name and value.
pub type Xattr = (Vec<u8>, Vec<u8>);

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
        remove_other_xattrs(&fd, attributes.xattrs)?;
        prepare(fd, attributes)
    }

    /// Gives an open file that this process created a moment ago, asking for the permissions `created`, its attributes.
    /// Calls that would change nothing are not made: the directory must hand nothing down ([`Creator::make_private`]).
    pub fn finish(&self, fd: impl AsFd, created: u32, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::File(fd.as_fd()), attributes, self.made(created))
    }

    /// [`Creator::finish`] for a link, named pipe, device or socket, named in its directory. Links are not followed.
    pub fn finish_at(&self, dir: impl AsFd, name: &[u8], created: u32, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::Name(dir.as_fd(), name), attributes, self.made(created))
    }

    /// Gives an open file or directory of any history its attributes, the [`SEALS`] apart.
    pub fn apply(&self, fd: impl AsFd, attributes: &Attributes<'_>) -> Result<Refused> {
        give(&Target::File(fd.as_fd()), attributes, None)
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
        give_xattrs(&target, attributes, &mut refused)?;
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
        give_xattrs(&target, attributes, &mut Refused::default())?;
        target.set_times(attributes.atime, attributes.mtime)
    }

    /// Makes sure that what is made in a directory of this process's own is its own too, nobody else's to enter, and gets no
    /// flags from it.
    pub fn make_private(&self, dir: impl AsFd) -> Result<()> {
        let target = Target::File(dir.as_fd());
        is_refusal(target.chown(self.uid, self.gid))?;
        fileattr::hand_nothing_down(&dir);
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
    give_xattrs(target, attributes, &mut refused)?;
    target.set_times(attributes.atime, attributes.mtime)?;
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
    let storage = attributes.xattrs.iter().filter(|(name, _)| name.starts_with(BTRFS)).cloned().collect::<Vec<_>>();
    let attributes = Attributes { xattrs: &storage, ..attributes.clone() };
    give_xattrs(&Target::File(fd.as_fd()), &attributes, &mut Refused::default())
}

fn give_xattrs(target: &Target<'_>, attributes: &Attributes<'_>, refused: &mut Refused) -> Result<()> {
    for (name, value) in attributes.xattrs {
        match target.set_xattr(name, value) {
            Ok(()) => {}
            Err(error @ (Errno::IO | Errno::NOMEM | Errno::ROFS)) => return Err(error),
            Err(_) => refused.xattrs.push((name.clone(), value.clone())),
        }
    }
    Ok(())
}

/// Where Btrfs keeps its properties, such as the way of compression.
const BTRFS: &[u8] = b"btrfs.";

/// Whether a directory hands an extended attribute down to what is made in it.
pub fn is_handed_down(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_") || name.starts_with(BTRFS)
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

/// The extended attributes of an open file or directory, sorted by name. Empty where the filesystem has none.
pub fn xattrs(fd: impl AsFd) -> Result<Vec<Xattr>> {
    let fd = fd.as_fd();
    collect(|buffer| rustix::fs::flistxattr(fd, buffer), |name, buffer| rustix::fs::fgetxattr(fd, name, buffer))
}

/// The extended attributes of a link or special node, named in its directory, sorted by name.
pub fn xattrs_at(dir: impl AsFd, name: &[u8]) -> Result<Vec<Xattr>> {
    let path = magic_link(&dir, name);
    let path = path.as_slice();
    collect(|buffer| rustix::fs::llistxattr(path, buffer), |name, buffer| rustix::fs::lgetxattr(path, name, buffer))
}

/// Removes the extended attributes that `wanted` does not name (inherited ACLs, remains of an earlier file).
pub fn remove_other_xattrs(fd: impl AsFd, wanted: &[Xattr]) -> Result<()> {
    remove_others(xattrs(&fd)?, wanted, |name| rustix::fs::fremovexattr(&fd, name))
}

/// [`remove_other_xattrs`] for an inode that is not to be opened, by a descriptor from [`open_path`].
pub fn remove_other_xattrs_of_node(node: impl AsFd, wanted: &[Xattr]) -> Result<()> {
    let path = magic_link(&node, b"");
    let path = path.as_slice();
    let present =
        collect(|buffer| rustix::fs::listxattr(path, buffer), |name, buffer| rustix::fs::getxattr(path, name, buffer))?;
    remove_others(present, wanted, |name| rustix::fs::removexattr(path, name))
}

fn remove_others(present: Vec<Xattr>, wanted: &[Xattr], remove: impl Fn(&[u8]) -> Result<()>) -> Result<()> {
    for (name, _) in present {
        if !wanted.iter().any(|(wanted, _)| *wanted == name) {
            match remove(&name) {
                Ok(()) | Err(Errno::PERM | Errno::ACCESS | Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Lists and reads attributes; sizes can change between the two calls, so both are asked again when a buffer was small.
fn collect(
    list: impl Fn(&mut [u8]) -> Result<usize>,
    get: impl Fn(&[u8], &mut [u8]) -> Result<usize>,
) -> Result<Vec<Xattr>> {
    let mut small = [0u8; 256];
    let names = match list(&mut small) {
        Ok(length) => small[..length].to_vec(),
        Err(Errno::RANGE) => fill(&list)?,
        // BADF: a directory that may be passed through but not read.
        Err(Errno::OPNOTSUPP | Errno::BADF) => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut xattrs = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        match fill(|buffer| get(name, buffer)) {
            Ok(value) => xattrs.push((name.to_vec(), value)),
            // Gone meanwhile, or listed but not for us to read.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    xattrs.sort_unstable();
    Ok(xattrs)
}

fn fill(call: impl Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 1024];
    loop {
        match call(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            // The kernel's bound is 64 KiB, for the list of names and for each value (xattr(7)).
            Err(Errno::RANGE) if buffer.len() < 1 << 16 => buffer.resize(1 << 16, 0),
            Err(error) => return Err(error),
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
