//! Reads one entry of a snapshot for the stream: attributes, and which parts of the content the receiver lacks. Runs on
//! many threads, because most of the time is spent waiting for the disk.

use super::difference::{Difference, New, map, written};
use super::starts::{Directories, Starts};
use crate::error::{Error, ErrorKind, Result};
use crate::extents::piece::Piece;
use crate::extents::ranges::{self, Bytes};
use crate::fs::metadata;
use crate::fs::openat;
use crate::fs::pread::read_exact;
use crate::fs::status::Status;
use crate::fs::stored_time;
use crate::snapshot::manifest::{Entry, Meta};
use crate::snapshot::recorded;
use crate::snapshot::stream::Xattrs;
use crate::snapshot::unreadable;
use crate::tree::walk::absolute;
use crate::util::path::join;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// Up to this size, in bytes, the data of a file is read here.
const SMALL: u64 = 256 << 10;
/// The action of opening an entry of the tree.
pub(super) const OPEN: &str = "open the snapshot's copy of";

/// A file with content to send.
pub(super) struct File {
    pub(super) fd: OwnedFd,
    /// The written pieces, in the order of their offsets.
    pub(super) pieces: Vec<Piece>,
    /// What differs from the start; everything if there is none.
    pub(super) data: Vec<Bytes>,
    pub(super) holes: Vec<Bytes>,
    /// The path of the base's file with most of the content.
    pub(super) start: Option<Vec<u8>>,
    /// The content of `data`, if that is small.
    pub(super) content: Option<Vec<u8>>,
}

/// An entry that was read.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) xattrs: Xattrs,
    pub(super) file: Option<File>,
    /// The pieces of a file that the receiver has already.
    pub(super) pieces: Vec<Piece>,
}

/// Reads the attributes of an entry, and its content if `starts` has the files of the base that may be a start.
pub(super) fn entry(at: &Directories, entry: &Entry, starts: Option<&Starts<'_>>) -> Result<Loaded> {
    let failed = |action: &str, errno| cannot(action, &join(&at.path, &entry.name), errno);
    let Some(record) = entry.file() else {
        let tree = recorded::of_node(&at.new, entry).map_err(|errno| failed("read the attributes of", errno))?;
        return Ok(Loaded { xattrs: all(tree, &entry.meta), file: None, pieces: Vec::new() });
    };
    if starts.is_none() && !entry.meta.has_xattrs {
        return Ok(Loaded { xattrs: all(Vec::new(), &entry.meta), file: None, pieces: Vec::new() });
    }
    let fd = openat::open_regular(at.new.as_fd(), &entry.name).map_err(|errno| failed(OPEN, errno))?;
    let status = Status::of(&fd).map_err(|errno| failed(OPEN, errno))?;
    if status.file_type() != FileType::RegularFile
        || status.size != record.size
        || !stored_time::is_kept(&fd, &status, entry.meta.mtime)
    {
        return Err(damaged(&join(&at.path, &entry.name), "the file of the snapshot differs from its record"));
    }
    let tree = if entry.meta.has_xattrs {
        metadata::xattrs(&fd).map_err(|errno| failed("read the attributes of", errno))?
    } else {
        Vec::new()
    };
    let xattrs = all(tree, &entry.meta);
    let Some(starts) = starts else { return Ok(Loaded { xattrs, file: None, pieces: Vec::new() }) };
    let file = file(fd, record.size, at, entry, starts).map_err(|errno| failed("read", errno))?;
    Ok(Loaded { xattrs, file: Some(file), pieces: Vec::new() })
}

/// The pieces of a file.
pub(super) fn pieces(at: &Directories, entry: &Entry) -> Result<Vec<Piece>> {
    let failed = |errno| cannot(OPEN, &join(&at.path, &entry.name), errno);
    let Some(record) = entry.file() else { return Ok(Vec::new()) };
    let fd = openat::open_regular(at.new.as_fd(), &entry.name).map_err(failed)?;
    map(&fd, record.size).map(|(_, pieces)| pieces).map_err(failed)
}

/// All attributes of an entry: those of its tree, and those that the tree did not take.
pub(super) fn all(tree: Vec<metadata::Xattr>, meta: &Meta) -> Xattrs {
    meta.xattrs(tree).into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Finds what must be sent of a file: what differs from the best start.
fn file(fd: OwnedFd, size: u64, at: &Directories, entry: &Entry, starts: &Starts<'_>) -> rustix::io::Result<File> {
    let (space, pieces) = map(&fd, size)?;
    // Inline data and the like has no piece, so the pieces are not enough.
    let written = written(fd.as_fd(), size)?;
    let whole = ranges::length(&written);
    let new = New { fd: fd.as_fd(), size, space, pieces: &pieces, written: &written };
    let mut best: Option<(Difference, Vec<u8>)> = None;
    for (path, old) in starts.open(at, entry) {
        let least = best.as_ref().map_or(whole, |(difference, _)| ranges::length(&difference.data));
        if least == 0 {
            break;
        }
        let difference = new.difference(&old, starts.reads)?;
        if ranges::length(&difference.data) < least {
            best = Some((difference, path));
        }
    }
    let (data, holes, start) = match best {
        Some((Difference { data, holes }, path)) => (data, holes, Some(path)),
        None => (written, Vec::new(), None),
    };
    let mut file = File { fd, pieces, data, holes, start, content: None };
    let length = ranges::length(&file.data);
    if length <= SMALL {
        file.content = Some(read_all(&file, length)?);
    }
    Ok(file)
}

fn read_all(file: &File, length: u64) -> rustix::io::Result<Vec<u8>> {
    let mut content = vec![0; length as usize];
    let mut at = 0;
    for range in &file.data {
        let part = &mut content[at..at + (range.end - range.start) as usize];
        at += part.len();
        read_exact(&file.fd, part, range.start)?;
    }
    Ok(content)
}

/// The error for an entry of the tree that cannot be read. Nobody removes one as long as the snapshot is open.
pub(super) fn cannot(action: &str, path: &[u8], errno: Errno) -> Error {
    match errno {
        Errno::NOENT => damaged(path, "it is missing in the snapshot"),
        Errno::STALE => damaged(path, "the snapshot's file has become shorter"),
        Errno::NOTDIR | Errno::LOOP | Errno::NXIO => damaged(path, "something else is in its place in the snapshot"),
        errno => unreadable::stored(action, absolute(path), errno),
    }
}

/// The error for an entry of the tree that is not as its record says.
fn damaged(path: &[u8], why: &str) -> Error {
    Error::new(ErrorKind::Damage, "send").at(absolute(path)).because(std::io::Error::other(why.to_string()))
}
