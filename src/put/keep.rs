//! The metadata of the replaced file that the new file keeps: owner, mode, attributes, ACLs, flags, project; not the
//! times.
//!
//! A file that replaces nothing is created like any other: with mode 0666 minus the umask, and with the attributes it
//! inherits from its directory.

use super::destination::Destination;
use crate::error::{Error, Result};
use crate::fs::metadata::{self, Attributes, Creator, FileAttr, Refused, Xattr};
use crate::fs::status::Status;
use crate::monitor::Monitor;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Attributes that describe the content: the new file has other content.
const OF_CONTENT: [&[u8]; 2] = [b"security.ima", b"security.evm"];

/// The mode at creation: nobody else may read a replacement before it has the mode of the replaced file.
pub(super) fn first_mode(destination: &Destination) -> Mode {
    let private = Mode::RUSR | Mode::WUSR;
    if destination.present.is_some() { private } else { private | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH }
}

/// Sets the attributes of the empty file that decide how its content is stored.
pub(super) fn prepare(creator: &Creator, destination: &Destination, file: &OwnedFd) -> rustix::io::Result<()> {
    let Some(present) = &destination.present else { return Ok(()) };
    let (xattrs, _) = xattrs(&present.fd);
    let attributes = Attributes::of(&present.status, &xattrs).with(FileAttr::of(&present.fd));
    creator.prepare_inheriting(file, &attributes)
}

/// Sets all metadata of the finished file, as the replaced file has it by now. Reports and counts failures.
pub(super) fn keep(creator: &Creator, destination: &Destination, file: &OwnedFd, monitor: &dyn Monitor) -> Result<u64> {
    let Some(present) = &destination.present else { return Ok(0) };
    let (xattrs, unread) = xattrs(&present.fd);
    let mut errors = 0;
    if let Some(errno) = unread {
        let error = Error::io("keep all extended attributes of", &destination.shown, errno);
        monitor.problem(&error.hint("some of them cannot be read; the rest is kept"));
        errors += 1;
    }
    let give = || -> rustix::io::Result<Refused> {
        let (kept, made) = (Status::of(&present.fd)?, Status::of(file)?);
        let (atime, mtime) = (made.atime, made.mtime);
        let attributes = Attributes { atime, mtime, ..Attributes::of(&kept, &xattrs) };
        creator.apply(file, &attributes.with(FileAttr::of(&present.fd)))
    };
    let refused = give().map_err(|errno| Error::io("keep the metadata of", &destination.shown, errno))?;
    let Some(error) = refused.error("keep") else { return Ok(errors) };
    monitor.problem(&error.at(&destination.shown));
    Ok(errors + 1)
}

fn xattrs(file: &OwnedFd) -> (Vec<Xattr>, Option<Errno>) {
    let (mut xattrs, unread) = metadata::readable_xattrs(file);
    xattrs.retain(|(name, _)| !OF_CONTENT.contains(&name.as_slice()));
    (xattrs, unread)
}
