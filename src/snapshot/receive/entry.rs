//! Makes one entry of the tree.

use super::content::{self, Written};
use super::journal::Journal;
use super::tree::{Tree, cannot_make, keep};
use crate::content::copy::{self, FileCopy, Request};
use crate::error::{Error, Result};
use crate::fs::metadata::{self, Xattr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Monitor;
use crate::snapshot::manifest::{Body, Entry, FileBody, Stored};
use crate::snapshot::source_path::{join, split};
use crate::snapshot::stream::{Content, Input, Place, Side, damage};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The trees that have the content of entries.
pub(super) struct Sources<'a> {
    pub(super) base: Option<BorrowedFd<'a>>,
    /// The place that was opened last.
    pub(super) last: Option<(Side, Vec<u8>, OwnedFd)>,
}

impl Sources<'_> {
    /// Opens the file at a place.
    pub(super) fn open(&mut self, tree: &Tree, place: &Place) -> Result<OwnedFd> {
        let failed = |cause: std::io::Error| Error::failed("open the file with the content").because(cause);
        let is_last = |side: Side, path: &[u8]| place.path.is_empty() || (side == place.side && path == place.path);
        if let Some((side, path, fd)) = &self.last
            && is_last(*side, path)
        {
            return fd.try_clone().map_err(failed);
        }
        if place.path.is_empty() {
            return Err(damage("a place has no file"));
        }
        let (directory, name) = split(&place.path);
        let opened = match (place.side, self.base) {
            (Side::New, _) => tree.any_directory(directory).and_then(|dir| openat::open_file(dir.as_fd(), name)),
            (Side::Base, Some(base)) => openat::open_file_at(base, &place.path),
            (Side::Base, None) => return Err(damage("a place is in a base, and there is none")),
        };
        let fd = opened.map_err(|errno| Error::io("open", crate::tree::walk::absolute(&place.path), errno))?;
        let is_file = Status::of(&fd).is_ok_and(|status| status.file_type() == FileType::RegularFile);
        if !is_file {
            return Err(damage("a place is no file"));
        }
        let copy = fd.try_clone().map_err(failed)?;
        self.last = Some((place.side, place.path.clone(), fd));
        Ok(copy)
    }
}

/// Makes an entry of the current directory. `is_there`: the base has something of this name. Returns its record.
pub(super) fn make<R: Read>(
    tree: &mut Tree,
    (sources, input): (&mut Sources<'_>, &mut Input<R>),
    is_there: bool,
    mut entry: Entry,
    (xattrs, content): (&[Xattr], &Content),
    (journal, is_begun): (&mut Journal, bool),
    monitor: &dyn Monitor,
) -> Result<(Entry, Written)> {
    let path = join(tree.path(), &entry.name);
    let dir = tree.open()?;
    let failed = |errno| cannot_make(&path, errno);
    let is_there = is_there && tree.is_based;
    if let (Content::Parts { start: Some(start) }, true, true) = (content, is_there, entry.meta.nlink < 2)
        && start.side == Side::Base
        && start.path == path
        && let Some(written) =
            update(tree, (sources, input), (dir.as_fd(), &path), &mut entry, xattrs, (journal, monitor))?
    {
        return Ok((entry, written));
    }
    if !is_begun {
        tree.take_out(dir.as_fd(), &entry.name, &path)?;
    }
    if let Content::LinkTo(first) = content {
        let (directory, name) = split(first);
        let directory = tree.any_directory(directory).map_err(failed)?;
        rustix::fs::linkat(&directory, name, &*dir, &entry.name, AtFlags::empty()).map_err(failed)?;
        return Ok((entry, Written::default()));
    }
    let Body::File(file) = &entry.body else {
        node(tree, dir.as_fd(), &mut entry, xattrs).map_err(failed)?;
        return Ok((entry, Written::default()));
    };
    let attributes = tree.attributes(&entry.meta, xattrs);
    let made = match is_begun {
        true => reopen(dir.as_fd(), &entry.name),
        false => create(tree, dir.as_fd(), &entry.name, &attributes),
    };
    let made = made.map_err(failed)?;
    let mut written = Written::default();
    match content {
        Content::InRecord if file.size == 0 => {}
        Content::Of(place) => {
            let source = sources.open(tree, place)?;
            clone(tree, &source, &made, file.size, monitor).map_err(failed)?;
            written.shared = file.size;
        }
        Content::Parts { start } => {
            if let Some(start) = start.as_ref().filter(|_| !is_begun) {
                let source = sources.open(tree, start)?;
                clone_any(tree, &source, &made, monitor).map_err(failed)?;
            }
            rustix::fs::ftruncate(&made, file.size).map_err(failed)?;
            let tree = &*tree;
            let open: content::OpenPlace<'_> = &mut |place| sources.open(tree, place);
            let is_empty = start.is_none() && !is_begun;
            written = content::receive(input, &made, (&path, file), is_empty, open, journal, monitor)?;
        }
        _ => return Err(damage("a file has no content")),
    }
    let refused = match is_begun {
        true => tree.creator.apply(&made, &attributes),
        false => tree.creator.finish(&made, entry.meta.mode, &attributes),
    };
    keep(&mut entry.meta, refused.map_err(failed)?);
    set_stored(&mut entry, written);
    Ok((entry, written))
}

/// Changes the base's file in a tree that began with it. `None`: it is not there as expected.
fn update<R: Read>(
    tree: &Tree,
    (sources, input): (&mut Sources<'_>, &mut Input<R>),
    (dir, path): (BorrowedFd<'_>, &[u8]),
    entry: &mut Entry,
    xattrs: &[Xattr],
    (journal, monitor): (&mut Journal, &dyn Monitor),
) -> Result<Option<Written>> {
    let failed = |errno| cannot_make(path, errno);
    let Body::File(file) = &entry.body else { return Ok(None) };
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(fd) = rustix::fs::openat(dir, &entry.name, flags, Mode::empty()) else { return Ok(None) };
    let is_alone = Status::of(&fd).is_ok_and(|status| status.file_type() == FileType::RegularFile && status.nlink == 1);
    if !is_alone {
        return Ok(None);
    }
    rustix::fs::ftruncate(&fd, file.size).map_err(failed)?;
    let open: content::OpenPlace<'_> = &mut |place| sources.open(tree, place);
    let written = content::receive(input, &fd, (path, file), false, open, journal, monitor)?;
    metadata::remove_other_xattrs(&fd, xattrs).and_then(metadata::Others::removed).map_err(failed)?;
    let refused = tree.creator.apply(&fd, &tree.attributes(&entry.meta, xattrs)).map_err(failed)?;
    keep(&mut entry.meta, refused);
    set_stored(entry, Written { shared: 1, ..written });
    Ok(Some(written))
}

/// Records how the content came into this tree.
pub(super) fn set_stored(entry: &mut Entry, written: Written) {
    if let Body::File(FileBody { stored, .. }) = &mut entry.body {
        *stored = if written.shared == 0 && written.data > 0 { Stored::Copied } else { Stored::Cloned };
    }
}

/// Opens a file of which a part has arrived.
fn reopen(dir: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    if Status::of(&file)?.file_type() == FileType::RegularFile { Ok(file) } else { Err(Errno::STALE) }
}

/// Creates a file for its content.
pub(super) fn create(
    tree: &Tree,
    dir: BorrowedFd<'_>,
    name: &[u8],
    attributes: &metadata::Attributes<'_>,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::from_bits_truncate(attributes.mode & 0o777))?;
    tree.creator.prepare(&file, attributes)?;
    Ok(file)
}

/// Gives an empty file the content of another one, which has this size.
pub(super) fn clone(
    tree: &Tree,
    source: &OwnedFd,
    made: &OwnedFd,
    size: u64,
    monitor: &dyn Monitor,
) -> rustix::io::Result<()> {
    let status = Status::of(source)?;
    if status.size != size {
        return Err(Errno::STALE);
    }
    copy(tree, source, &status, made, monitor)
}

fn clone_any(tree: &Tree, source: &OwnedFd, made: &OwnedFd, monitor: &dyn Monitor) -> rustix::io::Result<()> {
    let status = Status::of(source)?;
    copy(tree, source, &status, made, monitor)
}

fn copy(
    tree: &Tree,
    source: &OwnedFd,
    status: &Status,
    made: &OwnedFd,
    monitor: &dyn Monitor,
) -> rustix::io::Result<()> {
    if status.size == 0 {
        return Ok(());
    }
    if tree.filesystem.reflink && tree.strategy.clone(source, status.dev, made).is_ok() {
        return Ok(());
    }
    let (source, destination) = (source.as_fd(), made.as_fd());
    let job = FileCopy { source, status, destination, strategy: &tree.strategy, monitor };
    match copy::data(&job, &Request { engine: None, hashed: false }) {
        Ok(_) => Ok(()),
        Err(copy::CopyError::Source(errno) | copy::CopyError::Destination(errno)) => Err(errno),
        Err(copy::CopyError::Refused(_)) => Err(Errno::OPNOTSUPP),
    }
}

/// Makes a link, device, named pipe or socket.
pub(super) fn node(tree: &Tree, dir: BorrowedFd<'_>, entry: &mut Entry, xattrs: &[Xattr]) -> rustix::io::Result<()> {
    let permissions = Mode::from_bits_truncate(entry.meta.mode & 0o777);
    let (name, meta) = (&entry.name, &entry.meta);
    let made = match &entry.body {
        Body::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), dir, name),
        Body::Device(major, minor) => {
            let kind = FileType::from_raw_mode(meta.mode);
            rustix::fs::mknodat(dir, name, kind, permissions, rustix::fs::makedev(*major, *minor))
        }
        Body::Socket => rustix::fs::mknodat(dir, name, FileType::Socket, permissions, 0),
        _ => rustix::fs::mknodat(dir, name, FileType::Fifo, permissions, 0),
    };
    let attributes = tree.attributes(meta, xattrs);
    let finished = made.and_then(|()| tree.creator.finish_at(dir, name, permissions.bits(), &attributes));
    match finished {
        Ok(refused) => keep(&mut entry.meta, refused),
        // The manifest keeps what this filesystem or this user may not make.
        Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NAMETOOLONG) => {
            let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
            entry.meta.kept_here = true;
            entry
                .meta
                .kept_xattrs
                .extend(xattrs.iter().map(|(name, value)| (name.clone().into(), value.clone().into())));
        }
        Err(errno) => return Err(errno),
    }
    Ok(())
}
