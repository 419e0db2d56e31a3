//! Makes a new file with sound content and the recorded metadata, and renames it over a damaged file.

use crate::content::copy::{self, CopyError, FileCopy, Request, Strategy};
use crate::content::hash;
use crate::error::{Error, Result};
use crate::fs::data_loss::is_data_loss;
use crate::fs::metadata::{self, Attributes, Creator, FileAttr, PROJECT_INHERIT, Refused, SEALS, Xattr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Monitor;
use crate::snapshot::manifest::{Entry, Meta};
use crate::snapshot::repository::TEMPORARY;
use crate::tree::writer::{Inherited, TempFile, Temporary, Version};
use rustix::fs::{AtFlags, CWD, FileType, fsync};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

/// Makes files.
pub(super) struct Maker<'a> {
    monitor: &'a dyn Monitor,
    creator: Creator,
    strategy: Strategy,
}

/// The place of a file that is replaced, and its record.
#[derive(Clone, Copy)]
pub(super) struct Replacement<'a> {
    pub(super) dir: &'a OwnedFd,
    pub(super) name: &'a [u8],
    /// The damaged file. `None`: it is missing.
    pub(super) existing: Option<Status>,
    pub(super) entry: &'a Entry,
    /// The hash that its content must have.
    pub(super) hash: [u8; 32],
    /// The path for messages.
    pub(super) shown: &'a Path,
}

impl Replacement<'_> {
    fn version(&self) -> Option<Version> {
        self.existing.as_ref().map(Version::of)
    }

    fn failed(&self, action: &str, errno: Errno) -> Error {
        Error::io(action, self.shown, errno)
    }

    /// Puts another name of an inode in its place.
    pub(super) fn link(&self, inode: &OwnedFd) -> rustix::io::Result<()> {
        let from = format!("/proc/self/fd/{}", inode.as_raw_fd());
        let make = |name: &str| rustix::fs::linkat(CWD, from.as_str(), self.dir, name, AtFlags::SYMLINK_FOLLOW);
        let (temporary, ()) = Temporary::make(self.dir.as_fd(), TEMPORARY, make)?;
        temporary.put(self.name, self.version().as_ref())
    }
}

impl<'a> Maker<'a> {
    pub(super) fn new(monitor: &'a dyn Monitor) -> Maker<'a> {
        Maker { monitor, creator: Creator::current(), strategy: Strategy::new() }
    }

    /// Whether a file has this content on its device.
    pub(super) fn is_sound(&self, file: &OwnedFd, size: u64, wanted: [u8; 32]) -> bool {
        Status::of(file).is_ok_and(|status| status.size == size && status.file_type() == FileType::RegularFile)
            && hash::on_disk(file.as_fd(), size, self.monitor).is_ok_and(|found| found.hash == Some(wanted))
    }

    /// Makes a file with the content of `source` and puts it in its place, on the disk. `is_checked`: the content of
    /// the source is sound. Returns false, with nothing changed, if it is not.
    ///
    /// # Errors
    /// Errors of making the file. The damaged file is still there.
    pub(super) fn replace(&self, place: &Replacement<'_>, source: &OwnedFd, is_checked: bool) -> Result<bool> {
        let Replacement { dir, name, existing, entry, .. } = *place;
        if existing.is_some_and(|existing| existing.file_type() != FileType::RegularFile) {
            return Ok(false);
        }
        let status = Status::of(source).map_err(|errno| place.failed("read the status of the sound copy of", errno))?;
        let xattrs = self.xattrs(place, source)?;
        let wanted = self.attributes(place, &xattrs)?;
        let made = TempFile::make(dir.as_fd(), TEMPORARY, place.version());
        let made = made.map_err(|errno| place.failed("make a file beside", errno))?;
        let inherited = Inherited::of(dir);
        let prepared = inherited.prepare(&self.creator, &made, &wanted);
        prepared.map_err(|errno| place.failed("set the metadata of", errno))?;
        let (strategy, monitor) = (&self.strategy, self.monitor);
        let files = FileCopy { source: source.as_fd(), status: &status, destination: made.as_fd(), strategy, monitor };
        let written = match status.size {
            0 => 0,
            _ => match copy::content(&files, &Request::default()) {
                Ok(copied) => copied.data,
                Err(CopyError::Source(Errno::CANCELED)) => return Err(Error::interrupted()),
                Err(CopyError::Source(_)) => return Ok(false),
                Err(CopyError::Destination(errno)) => return Err(place.failed("write a copy of", errno)),
                Err(CopyError::Refused(_)) => return Err(place.failed("clone", Errno::OPNOTSUPP)),
            },
        };
        fsync(&made).map_err(|errno| place.failed("write a copy of", errno))?;
        if !is_checked || written > 0 {
            match hash::on_disk(made.as_fd(), status.size, self.monitor) {
                Ok(found) if found.hash == Some(place.hash) => {}
                Ok(_) => return Ok(false),
                Err(Errno::CANCELED) => return Err(Error::interrupted()),
                Err(errno) if is_data_loss(errno) => return Ok(false),
                Err(errno) => return Err(place.failed("read back the copy of", errno)),
            }
        }
        let refused = self.creator.apply(&made, &wanted.unsealed());
        let refused = refused.map_err(|errno| place.failed("set the metadata of", errno))?;
        if refused != Refused::default() && (existing.is_some() || !entry.meta.kept_here) {
            return Err(place.failed("set all metadata of", Errno::PERM));
        }
        fsync(&made).map_err(|errno| place.failed("write a copy of", errno))?;
        let made = made.put(name).map_err(|errno| place.failed("replace", errno))?;
        if wanted.fileattr.project.is_some_and(|project| project != inherited.project) {
            wanted.fileattr.seal(&made);
        }
        Ok(true)
    }

    /// The extended attributes that the file must have in the tree.
    fn xattrs(&self, place: &Replacement<'_>, source: &OwnedFd) -> Result<Vec<Xattr>> {
        let meta = &place.entry.meta;
        let (mut xattrs, unread) = match place.existing {
            Some(_) => metadata::readable_xattrs_at(place.dir, place.name),
            None if meta.has_xattrs => metadata::readable_xattrs(source),
            None => (Vec::new(), None),
        };
        if let Some(errno) = unread {
            return Err(place.failed("read the extended attributes of", errno));
        }
        if place.existing.is_none() {
            // What only the manifest has was refused by the tree.
            xattrs.retain(|(name, _)| meta.kept_xattrs.iter().all(|(kept, _)| kept.as_ref() != name));
        }
        Ok(xattrs)
    }

    /// The metadata that the file must have in the tree.
    fn attributes<'x>(&self, place: &Replacement<'_>, xattrs: &'x [Xattr]) -> Result<Attributes<'x>> {
        let Meta { uid, gid, mode, mtime, .. } = place.entry.meta;
        let recorded = Attributes { uid, gid, mode, atime: mtime, mtime, xattrs, fileattr: FileAttr::default() };
        let Some(existing) = place.existing else {
            let fileattr = place.entry.meta.fileattr().without(SEALS | PROJECT_INHERIT);
            let within = self.creator.within_rights(recorded).0;
            return Ok(within.with(FileAttr { project: None, ..fileattr }));
        };
        let file = openat::open_regular(place.dir.as_fd(), place.name);
        let fileattr = FileAttr::of(file.map_err(|errno| place.failed("open", errno))?);
        let of_tree = Attributes { mtime, ..Attributes::of(&existing, xattrs) };
        Ok(match place.entry.meta.kept_here {
            true => of_tree.with(fileattr),
            false => Attributes { atime: existing.atime, fileattr, ..recorded },
        })
    }
}
