//! Questions on Btrfs subvolumes. Nothing is created to find out: the answers follow from owner and flags.

use super::answer::{Answer, Reply, Value};
use super::place::Place;
use crate::fs::filesystem::Kind;
use crate::sys::btrfs::logical::{self, ROOT_DIRECTORY, TOP_LEVEL};
use crate::util::text;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

pub(super) fn subvolume(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let subvolume = logical::subvolume(place)?;
    let means = match subvolume.id {
        TOP_LEVEL => "the top level, in which all other subvolumes lie".to_string(),
        _ => format!("it is called {}", text::escape(OsStr::from_bytes(&subvolume.name))),
    };
    Ok(Some(Answer::new(Value::Number(subvolume.id), means)))
}

pub(super) fn read_only(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    Ok(Some(Answer::flag(
        logical::subvolume(place)?.read_only,
        "nothing in this subvolume can be changed: it can be cloned from, but not into",
        "this subvolume can be changed",
    )))
}

pub(super) fn snapshots(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let user = rustix::process::geteuid();
    let owner = rustix::fs::fstat(root(place)?)?.st_uid;
    Ok(Some(Answer::flag(
        user.is_root() || owner == user.as_raw(),
        "this user may make snapshots of this subvolume",
        "only root and the subvolume's owner may make snapshots of it",
    )))
}

pub(super) fn deletion(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let allowed = place.mount.as_ref().ok_or(Errno::NOSYS)?.has("user_subvol_rm_allowed");
    Ok(Some(Answer::flag(
        allowed || rustix::process::geteuid().is_root(),
        "this user may delete subvolumes that are its own",
        "only root may delete subvolumes (unless mounted with user_subvol_rm_allowed); empty ones go by rmdir",
    )))
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
