//! Makes one entry of the tree.

use super::content::{self, Had, Written};
use super::journal::Journal;
use super::sources::Sources;
use super::tree::{Tree, cannot_make};
use crate::content::copy::{self, FileCopy, Request};
use crate::error::Result;
use crate::fs::cow_extent_hint::CowExtentHint;
use crate::fs::metadata::{self, Xattr};
use crate::fs::status::Status;
use crate::monitor::Monitor;
use crate::snapshot::manifest::{Body, Entry, FileBody, Stored};
use crate::snapshot::stream::{Content, Input, Side, damage};
use crate::util::path::join;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What there is of an entry before it is made.
pub(super) struct Before {
    /// The record of the base that it replaces.
    pub(super) old: Option<Entry>,
    /// A part of its content arrived before the transfer was cut.
    pub(super) is_begun: bool,
}

/// Makes an entry of the current directory, which is not a further name of an inode. Returns its record.
pub(super) fn make<R: Read>(
    tree: &mut Tree,
    (sources, input): (&mut Sources, &mut Input<R>),
    before: &Before,
    mut entry: Entry,
    (xattrs, content): (&[Xattr], &Content),
    journal: &mut Journal,
    monitor: &dyn Monitor,
) -> Result<(Entry, Written)> {
    let path = join(tree.path(), &entry.name);
    let dir = tree.open()?;
    let failed = |errno| cannot_make(&path, errno);
    let had = match content {
        _ if before.is_begun => Had::Part,
        Content::Parts { start: None } => Had::Nothing,
        _ => Had::Start,
    };
    if let Some(file) = updatable(tree, sources, (dir.as_fd(), &path), before, &entry, content)? {
        let written = match content {
            Content::Parts { .. } => {
                rewrite(tree, (sources, input), (&file, &path), (&entry, had), (journal, monitor))?
            }
            _ => Written::default(),
        };
        metadata::remove_other_xattrs(&file, xattrs).and_then(metadata::Others::removed).map_err(failed)?;
        let refused = tree.creator.apply(&file, &tree.attributes(&entry.meta, xattrs)).map_err(failed)?;
        tree.keep(&mut entry.meta, refused);
        // The rest of its data is the base's.
        set_stored(&mut entry, Written { shared: 1, ..written });
        return Ok((entry, written));
    }
    if !before.is_begun {
        tree.make_room(dir.as_fd(), &entry.name, &path)?;
    }
    let Body::File(file) = &entry.body else {
        node(tree, dir.as_fd(), &mut entry, xattrs).map_err(failed)?;
        return Ok((entry, Written::default()));
    };
    let attributes = tree.attributes(&entry.meta, xattrs);
    let made = match before.is_begun {
        true => reopen(dir.as_fd(), &entry.name),
        false => create(tree, dir.as_fd(), &entry.name, &attributes),
    };
    let made = made.map_err(failed)?;
    let mut written = Written::default();
    match content {
        Content::InRecord => {}
        Content::Of(place) => {
            let source = sources.open(tree, place)?;
            clone(tree, &source, &made, file.size, monitor).map_err(failed)?;
            written.shared = file.size;
        }
        Content::Parts { start } => {
            if let Some(start) = start.as_ref().filter(|_| !before.is_begun) {
                let source = sources.open(tree, start)?;
                clone_any(tree, &source, &made, monitor).map_err(failed)?;
            }
            rustix::fs::ftruncate(&made, file.size).map_err(failed)?;
            let tree = &*tree;
            let open: content::OpenPlace<'_> = &mut |place| sources.open(tree, place);
            // Scattered writes into a clone would reserve much space for minutes.
            let hint = match had {
                Had::Nothing => None,
                _ => CowExtentHint::begin(made.as_fd(), tree.filesystem.block_size),
            };
            written = content::receive(input, &made, (&path, file), had, open, journal, monitor)?;
            hint.map_or(Ok(()), |hint| hint.end(made.as_fd())).map_err(failed)?;
        }
        Content::LinkTo(_) => return Err(damage("a hard link does not point to an earlier entry")),
    }
    let refused = match before.is_begun {
        true => tree.creator.apply(&made, &attributes),
        false => tree.creator.finish(&made, attributes.mode, &attributes),
    };
    tree.keep(&mut entry.meta, refused.map_err(failed)?);
    set_stored(&mut entry, written);
    Ok((entry, written))
}

/// Opens the file of the base in a tree that began with it, if the entry is that file with other content or metadata. A
/// file that was made since is not: the transfer may have been cut before it had all of its start. And if the transfer
/// was cut, the file may have a part of its new content already, so it cannot be taken as it is.
fn updatable(
    tree: &Tree,
    sources: &mut Sources,
    (dir, path): (BorrowedFd<'_>, &[u8]),
    before: &Before,
    entry: &Entry,
    content: &Content,
) -> Result<Option<OwnedFd>> {
    let Some(old) = before.old.as_ref().filter(|old| old.file().is_some() && tree.is_based) else { return Ok(None) };
    let start = match content {
        Content::Parts { start: Some(start) } => start,
        Content::Of(place) if !tree.is_resumed => place,
        _ => return Ok(None),
    };
    if old.meta.nlink > 1 || entry.meta.nlink > 1 || start.side != Side::Base || start.path != path {
        return Ok(None);
    }
    let failed = |errno| cannot_make(path, errno);
    let base = Status::of(sources.open(tree, start)?).map_err(failed)?;
    // All of a file's content is the base's only if both have one size.
    if matches!(content, Content::Of(_)) && entry.file().is_none_or(|file| file.size != base.size) {
        return Ok(None);
    }
    let found = match Status::at(dir, &entry.name) {
        Err(Errno::NOENT) => return Ok(None),
        found => found.map_err(failed)?,
    };
    // Btrfs gives no number a second time.
    if found.file_type() != FileType::RegularFile || found.ino != base.ino || found.nlink != 1 {
        return Ok(None);
    }
    open_to_change(dir, &entry.name).map(Some).map_err(failed)
}

/// Changes the content of the base's file in a tree that began with it.
fn rewrite<R: Read>(
    tree: &Tree,
    (sources, input): (&mut Sources, &mut Input<R>),
    (fd, path): (&OwnedFd, &[u8]),
    (entry, had): (&Entry, Had),
    (journal, monitor): (&mut Journal, &dyn Monitor),
) -> Result<Written> {
    let Body::File(file) = &entry.body else { return Err(damage("an entry cannot have such content")) };
    rustix::fs::ftruncate(fd, file.size).map_err(|errno| cannot_make(path, errno))?;
    let open: content::OpenPlace<'_> = &mut |place| sources.open(tree, place);
    content::receive(input, fd, (path, file), had, open, journal, monitor)
}

/// Records how the content came into this tree.
pub(super) fn set_stored(entry: &mut Entry, written: Written) {
    if let Body::File(FileBody { stored, .. }) = &mut entry.body {
        *stored = if written.shared == 0 && written.data > 0 { Stored::Copied } else { Stored::Cloned };
    }
}

/// Flags for a file that is changed.
const CHANGE: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Opens a file that has a part of its content.
fn reopen(dir: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let status = Status::at(dir, name)?;
    if status.file_type() != FileType::RegularFile || status.nlink != 1 {
        return Err(Errno::STALE);
    }
    open_to_change(dir, name)
}

/// Opens a file for writing. An owner without permission to write gets it; a file gets its permissions at the end.
fn open_to_change(dir: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let open = || rustix::fs::openat(dir, name, CHANGE, Mode::empty());
    match open() {
        Err(Errno::ACCESS) => {
            let found = metadata::open_path(dir, name)?;
            metadata::set_permissions(&found, Status::of(&found)?.permissions() | 0o600)?;
            open()
        }
        opened => opened,
    }
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
        Ok(refused) => tree.keep(&mut entry.meta, refused),
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
