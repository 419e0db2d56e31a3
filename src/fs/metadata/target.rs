//! The inode that receives metadata: an open file, a name in a directory, or a handle that cannot read. One call for
//! each kind of metadata.

use super::acl;
use super::buffer::fill;
use crate::fs::status::{Time, timestamps};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, XattrFlags};
use rustix::io::Result;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Sets the times of an open file or directory (futimens(3)).
pub fn set_times(fd: impl AsFd, atime: Time, mtime: Time) -> Result<()> {
    Target::File(fd.as_fd()).set_times(atime, mtime)
}

/// Sets the permissions of an inode that must not be opened, by a descriptor from [`open_path`]. fchmod(2) does not
/// accept one.
pub fn set_permissions(node: impl AsFd, permissions: u32) -> Result<()> {
    Target::Node(node.as_fd()).chmod(permissions)
}

/// The inode that receives attributes.
pub(super) enum Target<'a> {
    File(BorrowedFd<'a>),
    Name(BorrowedFd<'a>, &'a [u8]),
    Node(BorrowedFd<'a>),
}

impl Target<'_> {
    pub(super) fn chown(&self, uid: u32, gid: u32) -> Result<()> {
        let (owner, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        match self {
            Target::File(fd) => rustix::fs::fchown(fd, owner, group),
            Target::Name(dir, name) => rustix::fs::chownat(dir, *name, owner, group, AtFlags::SYMLINK_NOFOLLOW),
            Target::Node(node) => rustix::fs::chownat(node, b"".as_slice(), owner, group, AtFlags::EMPTY_PATH),
        }
    }

    pub(super) fn chmod(&self, permissions: u32) -> Result<()> {
        let mode = Mode::from_bits_truncate(permissions);
        match self {
            Target::File(fd) => rustix::fs::fchmod(fd, mode),
            Target::Name(dir, name) => {
                // fchmodat(2) always follows links before Linux 6.6, so the node is pinned first.
                let node = open_path(*dir, name)?;
                rustix::fs::chmod(magic_link(&node, b"").as_slice(), mode)
            }
            Target::Node(node) => rustix::fs::chmod(magic_link(node, b"").as_slice(), mode),
        }
    }

    pub(super) fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Target::File(fd) => rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            Target::Name(dir, node) => {
                rustix::fs::lsetxattr(magic_link(dir, node).as_slice(), name, value, XattrFlags::empty())
            }
            // The link in procfs is followed to the node. If the node is a symbolic link, that is not followed.
            Target::Node(node) => {
                rustix::fs::setxattr(magic_link(node, b"").as_slice(), name, value, XattrFlags::empty())
            }
        }
    }

    /// Its access control list, if it has one that can be read.
    pub(super) fn access_acl(&self) -> Option<Vec<u8>> {
        let path = match self {
            Target::File(fd) => return fill(|buffer| rustix::fs::fgetxattr(fd, acl::ACCESS, buffer)).ok(),
            Target::Name(dir, name) => {
                let path = magic_link(dir, name);
                return fill(|buffer| rustix::fs::lgetxattr(path.as_slice(), acl::ACCESS, buffer)).ok();
            }
            Target::Node(node) => magic_link(node, b""),
        };
        fill(|buffer| rustix::fs::getxattr(path.as_slice(), acl::ACCESS, buffer)).ok()
    }

    pub(super) fn set_times(&self, atime: Time, mtime: Time) -> Result<()> {
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

/// Opens a node without its content. The handle stays with its inode after renames.
pub fn open_path(dir: impl AsFd, name: &[u8]) -> Result<std::os::fd::OwnedFd> {
    use rustix::fs::OFlags;
    rustix::fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// `/proc/self/fd/N/NAME`: a path for calls that take no directory descriptor.
pub(super) fn magic_link(dir: impl AsFd, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd()).into_bytes();
    if !name.is_empty() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    path
}
