//! Questions on Btrfs subvolumes. Nothing is created to find out: the answers follow from owner and flags.

use super::answer::{Answer, Reply};
use super::place::Place;
use crate::fs::filesystem::Kind;
use crate::sys::btrfs::logical::{self, ROOT_DIRECTORY, TOP_LEVEL};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;

pub(super) fn subvolume(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let subvolume = logical::subvolume(place)?;
    let name = (subvolume.id != TOP_LEVEL).then(|| OsString::from_vec(subvolume.name));
    Ok(Some(Answer::Subvolume { id: subvolume.id, name }))
}

pub(super) fn read_only(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    Ok(Some(Answer::SubvolumeReadOnly(logical::subvolume(place)?.read_only)))
}

pub(super) fn snapshots(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let user = rustix::process::geteuid();
    let owner = rustix::fs::fstat(root(place)?)?.st_uid;
    Ok(Some(Answer::Snapshots(user.is_root() || owner == user.as_raw())))
}

pub(super) fn deletion(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let allowed = place.mount.as_ref().ok_or(Errno::NOSYS)?.has("user_subvol_rm_allowed");
    Ok(Some(Answer::SnapshotDeletion(allowed || rustix::process::geteuid().is_root())))
}

/// The root directory of the subvolume: goes upwards until the inode number is that of a root.
fn root(place: &Place) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = rustix::fs::openat(place.as_fd(), c".", flags, Mode::empty())?;
    let mut before = None;
    loop {
        let stat = rustix::fs::fstat(&here)?;
        if stat.st_ino == ROOT_DIRECTORY {
            return Ok(here);
        }
        // Another filesystem, or the top of the tree: the mount does not include the subvolume's root.
        if before.is_some_and(|(device, inode)| device != stat.st_dev || inode == stat.st_ino) {
            return Err(Errno::XDEV);
        }
        before = Some((stat.st_dev, stat.st_ino));
        here = rustix::fs::openat(&here, c"..", flags, Mode::empty())?;
    }
}
