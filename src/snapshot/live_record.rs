//! Records of entries of the sources as they are now, for a comparison with an earlier record. A file is read only if
//! its size does not prove that it changed. Nothing is stored.

use crate::content::hash;
use crate::fs::metadata::{self, FileAttrs, Xattr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Monitor;
use crate::snapshot::manifest::{Body, Entry, FileBody, Meta, Stored};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes such records.
pub(crate) struct Reader<'a> {
    monitor: &'a dyn Monitor,
    fileattrs: FileAttrs,
    read_bytes: AtomicU64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(monitor: &'a dyn Monitor) -> Self {
        Reader { monitor, fileattrs: FileAttrs::default(), read_bytes: AtomicU64::default() }
    }

    /// The data that was read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// The record of an entry with this status, as far as a comparison with `old` needs it. Its content is hashed if
    /// `old` has a hash and the same size.
    ///
    /// # Errors
    /// If the entry cannot be read.
    pub(crate) fn entry(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        status: &Status,
        old: &Entry,
    ) -> rustix::io::Result<Entry> {
        let (mut body, mut file) = (body(directory, name, status)?, None);
        if let Body::File(new) = &mut body {
            let opened = openat::open_file(directory, name)?;
            if let Some(FileBody { size, hash: Some(_), .. }) = old.file()
                && *size == new.size
            {
                let (found, read) = hash::any_file(&opened, new.size, self.monitor)?;
                self.read_bytes.fetch_add(read, Ordering::Relaxed);
                new.hash = Some(found);
            }
            file = Some(opened);
        }
        let found = match &file {
            Some(file) => metadata::readable_xattrs(file),
            None => metadata::readable_xattrs_at(directory, name),
        };
        let mut meta = with_xattrs(Meta::of(status, false), found);
        if let Some(file) = &file {
            meta = meta.with(self.fileattrs.of(file, status.dev));
        }
        meta.recheck = true;
        Ok(Entry { name: name.to_vec(), meta, body })
    }

    /// The metadata of an open directory.
    pub(crate) fn directory(&self, fd: &OwnedFd, status: &Status) -> Meta {
        let meta = with_xattrs(Meta::of(status, false), metadata::readable_xattrs(fd));
        meta.with(self.fileattrs.of(fd.as_fd(), status.dev))
    }
}

/// The record of an entry without an earlier one.
///
/// # Errors
/// If it is a link that cannot be read.
pub(crate) fn new_entry(directory: BorrowedFd<'_>, name: &[u8], status: &Status) -> rustix::io::Result<Entry> {
    let body = body(directory, name, status)?;
    Ok(Entry { name: name.to_vec(), meta: Meta::of(status, false), body })
}

/// The content of an entry, without a hash.
fn body(directory: BorrowedFd<'_>, name: &[u8], status: &Status) -> rustix::io::Result<Body> {
    Ok(match status.file_type() {
        FileType::RegularFile => {
            Body::File(FileBody { size: status.size, holes: 0, hash: None, stored: Stored::Cloned, changed: false })
        }
        FileType::Symlink => Body::Symlink(rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes()),
        FileType::Fifo => Body::Fifo,
        FileType::Socket => Body::Socket,
        _ => Body::Device(status.rdev.0, status.rdev.1),
    })
}

/// The record with these attributes. If some are unreadable, it counts as incomplete.
fn with_xattrs(meta: Meta, (xattrs, unreadable): (Vec<Xattr>, Option<Errno>)) -> Meta {
    let has_xattrs = !xattrs.is_empty() || unreadable.is_some();
    let kept = if unreadable.is_some() { Vec::new() } else { xattrs };
    let kept_xattrs = kept.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    Meta { has_xattrs, kept_xattrs, ..meta }
}
