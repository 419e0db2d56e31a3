//! Questions on the metadata that a filesystem keeps for a file: times, attributes, ACLs.

use super::answer::{Answer, Reply, TrustedXattrs};
use super::place::Place;
use rustix::fs::{Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

pub(super) fn nanosecond_times(place: &Place) -> Reply {
    let file = place.file()?;
    let time = Timespec { tv_sec: 1_000_000_000, tv_nsec: 123_456_789 };
    rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
    Ok(Some(Answer::NanosecondTimes(rustix::fs::fstat(&file)?.st_mtime_nsec == 123_456_789)))
}

pub(super) fn user_xattrs(place: &Place) -> Reply {
    let file = place.file()?;
    let set = rustix::fs::fsetxattr(&file, "user.pleach.probe", b"1", XattrFlags::empty());
    Ok(Some(Answer::UserXattrs(set.is_ok())))
}

pub(super) fn trusted_xattrs(place: &Place) -> Reply {
    let file = place.file()?;
    let set = rustix::fs::fsetxattr(&file, "trusted.pleach.probe", b"1", XattrFlags::empty());
    Ok(Some(Answer::TrustedXattrs(match set {
        Ok(()) => TrustedXattrs::Kept,
        Err(Errno::PERM) if !rustix::process::geteuid().is_root() => TrustedXattrs::OnlyRoot,
        Err(_) => TrustedXattrs::Refused,
    })))
}

pub(super) fn acls(place: &Place) -> Reply {
    let file = place.file()?;
    let set = rustix::fs::fsetxattr(&file, "system.posix_acl_access", &acl(), XattrFlags::empty());
    Ok(Some(Answer::Acls(set.is_ok())))
}

/// An ACL with one user beyond those of the mode, as `linux/posix_acl_xattr.h` lays it out.
fn acl() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    // Tag, permissions, id: owner, one user (this one), group, mask, others.
    let me = rustix::process::geteuid().as_raw();
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, NOBODY), (2, 4, me), (4, 4, NOBODY), (0x10, 4, NOBODY), (0x20, 0, NOBODY)];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        acl.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        acl.extend(id.to_le_bytes());
    }
    acl
}
