//! Extended attributes (including ACLs and capabilities): read from one inode, set on another.
//!
//! Some names are only another view of other metadata ([`is_alias`]): these are neither read nor set. New entries of a
//! directory inherit some attributes ([`is_inherited`]): a directory gets these last.
//!
//! Sources: xattr(7), acl(5), `fs/xfs/xfs_xattr.c`, `fs/posix_acl.c`, btrfs(5).

use super::acl;
use super::buffer::{LONGEST, fill};
use super::target::{Target, magic_link};
use rustix::io::{Errno, Result};
use std::os::fd::AsFd;
use std::path::Path;

/// An extended attribute: name and value.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// The prefix of the properties of Btrfs, such as compression.
pub(super) const BTRFS: &[u8] = b"btrfs.";

/// The ACL that new entries of a directory inherit.
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// The capabilities of a program (capabilities(7)).
pub const CAPABILITIES: &[u8] = b"security.capability";

/// Whether an extended attribute is only another view of other metadata. XFS shows ACLs to root a second time, in its
/// own format. On another filesystem these bytes mean nothing; on a directory of an XFS they set its default ACL.
pub fn is_alias(name: &[u8]) -> bool {
    matches!(name, b"trusted.SGI_ACL_FILE" | b"trusted.SGI_ACL_DEFAULT")
}

/// The capabilities of a program among its extended attributes.
pub fn capabilities(xattrs: &[Xattr]) -> Option<&[u8]> {
    xattrs.iter().find(|(name, _)| name == CAPABILITIES).map(|(_, value)| value.as_slice())
}

/// The access control list among extended attributes.
pub fn access_acl(xattrs: &[Xattr]) -> Option<&[u8]> {
    xattrs.iter().find(|(name, _)| name == acl::ACCESS).map(|(_, value)| value.as_slice())
}

/// An extended attribute of the entry at a path, if it has this one and it can be read. No link is followed.
pub fn xattr(path: &Path, name: &[u8]) -> Option<Vec<u8>> {
    fill(|buffer| rustix::fs::lgetxattr(path, name, buffer)).ok()
}

/// Whether new entries of a directory inherit an extended attribute: ACLs of every kind (`system.posix_acl_default`,
/// `system.nfs4_acl`, …), properties of Btrfs, labels of SELinux and Smack.
pub fn is_inherited(name: &[u8]) -> bool {
    let prefixes: [&[u8]; 4] = [b"system.", BTRFS, b"security.selinux", b"security.SMACK64"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Sets extended attributes on a target with this mode, and adds those that it refuses to `refused`. A list that
/// contradicts the mode is one of them: it is set as the mode allows. Without `gives_rights`, capabilities are refused,
/// too.
///
/// # Errors
/// Errors that do not concern a single attribute.
pub(super) fn give(
    target: &Target<'_>,
    xattrs: &[Xattr],
    mode: u32,
    gives_rights: bool,
    refused: &mut Vec<Xattr>,
) -> Result<()> {
    for (name, value) in xattrs {
        // Manifests and trees of earlier versions contain them.
        if is_alias(name) {
            continue;
        }
        if name == CAPABILITIES && !gives_rights {
            refused.push((name.clone(), value.clone()));
            continue;
        }
        let changed = if name == acl::ACCESS { acl::with_mode(value, mode) } else { None };
        match target.set_xattr(name, changed.as_ref().unwrap_or(value)) {
            Ok(()) if changed.is_none() => {}
            Err(error @ (Errno::IO | Errno::NOMEM | Errno::ROFS)) => return Err(error),
            Ok(()) | Err(_) => refused.push((name.clone(), value.clone())),
        }
    }
    Ok(())
}

/// Removes the default ACL of a directory, which may be inherited.
pub(super) fn remove_default_acl(dir: impl AsFd) -> Result<()> {
    match rustix::fs::fremovexattr(dir, DEFAULT_ACL) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::INVAL) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The extended attributes of an open file or directory, sorted by name. Empty if the filesystem has none.
///
/// # Errors
/// If one cannot be read; `2BIG` if the kernel cannot list all names.
pub fn xattrs(fd: impl AsFd) -> Result<Vec<Xattr>> {
    whole(readable_xattrs(fd))
}

/// [`xattrs`] of a link or special node, by its name in a directory.
///
/// # Errors
/// Like [`xattrs`].
pub fn xattrs_at(dir: impl AsFd, name: &[u8]) -> Result<Vec<Xattr>> {
    whole(readable_xattrs_at(dir, name))
}

/// The readable extended attributes of an open file or directory, sorted by name, and why the others are unreadable.
pub fn readable_xattrs(fd: impl AsFd) -> (Vec<Xattr>, Option<Errno>) {
    let fd = fd.as_fd();
    collect(|buffer| rustix::fs::flistxattr(fd, buffer), |name, buffer| rustix::fs::fgetxattr(fd, name, buffer))
}

/// [`readable_xattrs`] of a link or special node, by its name in a directory.
pub fn readable_xattrs_at(dir: impl AsFd, name: &[u8]) -> (Vec<Xattr>, Option<Errno>) {
    let path = magic_link(&dir, name);
    let path = path.as_slice();
    collect(|buffer| rustix::fs::llistxattr(path, buffer), |name, buffer| rustix::fs::lgetxattr(path, name, buffer))
}

/// Whether an inode, by its name in a directory, has more extended attributes than the kernel lists.
pub fn has_unlisted_xattrs_at(dir: impl AsFd, name: &[u8]) -> bool {
    is_too_long(rustix::fs::llistxattr_query(magic_link(&dir, name).as_slice()))
}

/// [`has_unlisted_xattrs_at`] of an open file or directory.
pub fn has_unlisted_xattrs(fd: impl AsFd) -> bool {
    is_too_long(rustix::fs::flistxattr_query(fd))
}

/// Most filesystems return the length of a list that is too long to be read.
fn is_too_long(length: Result<usize>) -> bool {
    length.map_or_else(|errno| errno == Errno::TOOBIG, |length| length > LONGEST)
}

/// What happened to extended attributes that an inode must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "attributes that cannot be listed stay, which the user must learn"]
pub enum Others {
    /// They were removed.
    Removed,
    /// There are more names than the kernel lists. None was removed.
    Unlisted,
}

impl Others {
    /// For an inode that was just created and cannot have that many.
    ///
    /// # Errors
    /// `2BIG` if it does.
    pub fn removed(self) -> Result<()> {
        match self {
            Others::Removed => Ok(()),
            Others::Unlisted => Err(Errno::TOOBIG),
        }
    }
}

/// Removes the extended attributes that are not in `wanted` (inherited ACLs, remains of an earlier file).
///
/// # Errors
/// Errors of the calls.
pub fn remove_other_xattrs(fd: impl AsFd, wanted: &[Xattr]) -> Result<Others> {
    let present = list(|buffer| rustix::fs::flistxattr(&fd, buffer));
    remove_others(present, wanted, |name| rustix::fs::fremovexattr(&fd, name))
}

/// [`remove_other_xattrs`] for an inode that must not be opened, by a descriptor from [`open_path`](super::open_path).
///
/// # Errors
/// Errors of the calls.
pub fn remove_other_xattrs_of_node(node: impl AsFd, wanted: &[Xattr]) -> Result<Others> {
    let path = magic_link(&node, b"");
    let path = path.as_slice();
    let present = list(|buffer| rustix::fs::listxattr(path, buffer));
    remove_others(present, wanted, |name| rustix::fs::removexattr(path, name))
}

fn remove_others(present: Result<Vec<u8>>, wanted: &[Xattr], remove: impl Fn(&[u8]) -> Result<()>) -> Result<Others> {
    let present = match present {
        Err(Errno::TOOBIG) => return Ok(Others::Unlisted),
        present => present?,
    };
    for name in names(&present) {
        if !wanted.iter().any(|(wanted, _)| wanted == name) {
            match remove(name) {
                Ok(()) | Err(Errno::PERM | Errno::ACCESS | Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Others::Removed)
}

fn whole((xattrs, error): (Vec<Xattr>, Option<Errno>)) -> Result<Vec<Xattr>> {
    error.map_or(Ok(xattrs), Err)
}

/// Lists and reads attributes. Sizes can change between the calls, so they are repeated if a buffer was too small. An
/// unreadable attribute does not prevent reading the others.
fn collect(
    call: impl Fn(&mut [u8]) -> Result<usize>,
    get: impl Fn(&[u8], &mut [u8]) -> Result<usize>,
) -> (Vec<Xattr>, Option<Errno>) {
    let present = match list(call) {
        Ok(present) => present,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut xattrs, mut failure) = (Vec::new(), None);
    for name in names(&present) {
        match fill(|buffer| get(name, buffer)) {
            Ok(value) => xattrs.push((name.to_vec(), value)),
            // Removed meanwhile, or listed but not readable for this process.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {}
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    xattrs.sort_unstable();
    (xattrs, failure)
}

/// The list of names from the kernel. Empty if the filesystem has none.
fn list(call: impl Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut small = [0u8; 256];
    match call(&mut small) {
        Ok(length) => Ok(small[..length].to_vec()),
        Err(Errno::RANGE) => fill(call),
        // BADF: a directory that is searchable but not readable.
        Err(Errno::OPNOTSUPP | Errno::BADF) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The names in a list, without aliases.
pub(super) fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !is_alias(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_that_cannot_be_read_does_not_hide_the_others() {
        let list = |buffer: &mut [u8]| {
            let names = b"user.a\0user.bad\0trusted.SGI_ACL_FILE\0user.z\0";
            buffer.get_mut(..names.len()).ok_or(Errno::RANGE)?.copy_from_slice(names);
            Ok(names.len())
        };
        let get = |name: &[u8], buffer: &mut [u8]| match name {
            b"user.bad" => Err(Errno::TOOBIG),
            _ => {
                buffer[0] = name[5];
                Ok(1)
            }
        };
        let (xattrs, failure) = collect(list, get);
        assert_eq!(xattrs, [(b"user.a".to_vec(), b"a".to_vec()), (b"user.z".to_vec(), b"z".to_vec())]);
        assert_eq!(failure, Some(Errno::TOOBIG));
    }

    #[test]
    fn other_attributes_are_removed_unless_there_are_more_than_can_be_listed() {
        let present = b"user.a\0user.wanted\0trusted.SGI_ACL_FILE\0user.z\0".to_vec();
        let wanted = [(b"user.wanted".to_vec(), b"x".to_vec())];
        let removed = std::cell::RefCell::new(Vec::new());
        let remove = |name: &[u8]| {
            removed.borrow_mut().push(String::from_utf8_lossy(name).into_owned());
            Ok(())
        };
        assert_eq!(remove_others(Ok(present), &wanted, remove), Ok(Others::Removed));
        assert_eq!(*removed.borrow(), ["user.a", "user.z"]);
        assert_eq!(remove_others(Err(Errno::TOOBIG), &wanted, |_| Err(Errno::IO)), Ok(Others::Unlisted));
        assert_eq!(remove_others(Err(Errno::IO), &wanted, |_| Ok(())), Err(Errno::IO));
        assert!(is_too_long(Ok(LONGEST + 1)) && is_too_long(Err(Errno::TOOBIG)) && !is_too_long(Ok(LONGEST)));
    }

    #[test]
    fn acls_of_every_kind_and_properties_are_inherited() {
        for name in ["system.posix_acl_default", "system.nfs4_acl", "btrfs.compression", "security.selinux"] {
            assert!(is_inherited(name.as_bytes()), "{name}");
        }
        assert!(!is_inherited(b"user.note") && !is_inherited(b"security.capability") && !is_inherited(b"trusted.x"));
    }
}
