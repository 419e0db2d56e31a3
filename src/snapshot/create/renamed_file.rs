//! Content that the last snapshot has under another name. A file that was renamed, moved or copied on another
//! filesystem is cloned from the last snapshot, and none of its data is written.
//!
//! The file is found by its hash, after it has been read once. A file that was moved with its directory still has its
//! unchanged inode, and is found without reading. The index of the last manifest is built when the first such file
//! appears. Small files are held in memory meanwhile, so that they are read only once in any case. For large files a
//! few blocks are compared before all of the file is read, since data files of one size are common.

use super::added_entry::AddedEntry;
use super::content_index::{ContentIndex, TRIES};
use super::context::Context;
use super::failure::{Attempt, Failure, or_none};
use super::new_file;
use super::previous::Previous;
use super::source_entry::SourceEntry;
use super::source_file::SourceFile;
use super::target::Target;
use crate::content::copy::{CopyError, Held, Reason};
use crate::content::hash;
use crate::error::Result;
use crate::fs::openat;
use crate::fs::pread::read_full;
use crate::fs::sparse;
use crate::fs::status::Status;
use crate::snapshot::devices::Devices;
use crate::snapshot::manifest::{Address, Body, Entry, FileBody};
use rustix::fs::FileType;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Up to this size, in bytes, content is held in memory.
const HELD: u64 = 1 << 20;
/// On the snapshot's own filesystem, the index is built only after this many times the bytes of its blocks were read
/// for hashes.
const WORTH: u64 = 8;
/// How many bytes a block of a manifest holds.
const BLOCK: u64 = 64 << 10;
/// How much is compared at each place of a large file, in bytes.
const SAMPLE: u64 = 4096;

/// The result of the search for the content of a file.
enum Found {
    /// The last snapshot has it, and it was cloned.
    Cloned(Box<AddedEntry>),
    /// The last snapshot does not have it. It is in memory now.
    Held(Held),
    /// The last snapshot does not have it. This many bytes were read to find that out.
    Nowhere(u64),
}

/// Adds a file that cannot be cloned from its source. It is cloned from the last snapshot if that has its content, and
/// copied otherwise.
pub(super) fn add(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    reason: Reason,
) -> Attempt<AddedEntry, CopyError> {
    match find(target, found, source)? {
        Found::Cloned(added) => Ok(*added),
        Found::Held(held) => write_held(target, found, source, &held, reason).map_err(Failure::Entry),
        Found::Nowhere(read) => {
            let mut added = new_file::copy(target, found, source, reason).map_err(Failure::Entry)?;
            added.cost.read_bytes += read;
            Ok(added)
        }
    }
}

fn find(target: &Target<'_>, found: &SourceEntry<'_>, source: &SourceFile) -> Attempt<Found, CopyError> {
    let SourceFile { fd, status, .. } = source;
    let Some(previous) = target.context.previous.filter(|_| target.staged.filesystem.reflink && status.size > 0) else {
        return Ok(Found::Nowhere(0));
    };
    let index = target.context.content_index.get_or_init(|| ContentIndex::of(previous, target.context.monitor));
    for address in index.of_inode(status) {
        let is_same = |old: &Entry| is_untouched(old, status, &target.context.devices, fd.as_fd());
        if let Some(added) = clone_known(target, previous, address, is_same, found, source)? {
            return Ok(Found::Cloned(Box::new(added)));
        }
    }
    if !target.context.hashes() || !index.has_size(status.size) {
        return Ok(Found::Nowhere(0));
    }
    let content = read_content(target.context, index, previous, fd.as_fd(), status.size);
    let Content { hash, read, held } = content.map_err(|errno| Failure::Entry(CopyError::Source(errno)))?;
    let Some(hash) = hash else { return Ok(Found::Nowhere(read)) };
    let holes = match &held {
        Some(held) => Ok(held.holes()),
        None => sparse::holes(fd, status.size),
    };
    let is_same = |old: &FileBody| old.hash == Some(hash) && !old.changed && holes == Ok(old.holes);
    for address in index.of_hash(status.size, &hash) {
        let is_same = |old: &Entry| old.file().is_some_and(is_same);
        if let Some(mut added) = clone_known(target, previous, address, is_same, found, source)? {
            added.cost.read_bytes += read;
            return Ok(Found::Cloned(Box::new(added)));
        }
    }
    Ok(held.map_or(Found::Nowhere(read), Found::Held))
}

/// The hash of a file on the snapshot's own filesystem, if the last snapshot had the file by another path. Without the
/// hash, the caller reads the file; those bytes are counted here to decide when the index is worth building.
pub(super) fn known_hash(context: &Context<'_>, status: &Status, source: impl AsFd) -> Option<[u8; 32]> {
    let previous = context.previous?;
    let index = match context.content_index.get() {
        Some(index) => index,
        None => {
            let read = context.hashed.fetch_add(status.size, Ordering::Relaxed);
            if read.saturating_add(status.size) < WORTH * BLOCK * previous.reader.blocks() as u64 {
                return None;
            }
            context.content_index.get_or_init(|| ContentIndex::of(previous, context.monitor))
        }
    };
    index.of_inode(status).find_map(|address| {
        let (_, entry) = previous.reader.entry_at(address).ok()??;
        if is_untouched(&entry, status, &context.devices, source.as_fd()) { entry.file()?.hash } else { None }
    })
}

/// Reads a file if the last snapshot has files of its size, unless it resembles none of them.
fn read_content(
    context: &Context<'_>,
    index: &ContentIndex,
    previous: &Previous,
    fd: BorrowedFd<'_>,
    size: u64,
) -> rustix::io::Result<Content> {
    if size <= HELD {
        let held = Held::read(fd, size)?;
        return Ok(Content { hash: Some(held.hash()), read: held.data(), held: Some(held) });
    }
    let (resembles, sampled) = resembles_one(index, previous, fd, size);
    if !resembles {
        return Ok(Content { hash: None, read: sampled, held: None });
    }
    let hashed = hash::file(fd, size, context.monitor)?;
    Ok(Content { hash: hashed.hash, read: sampled + hashed.read, held: None })
}

/// Clones the last snapshot's file at this address, if its record fits and the file still matches the record.
fn clone_known(
    target: &Target<'_>,
    previous: &Previous,
    address: Address,
    is_same: impl FnOnce(&Entry) -> bool,
    found: &SourceEntry<'_>,
    source: &SourceFile,
) -> Result<Option<AddedEntry>> {
    let Some((old, fd, status)) = open_known(previous, address, is_same) else { return Ok(None) };
    let known = source.with_content(fd, status.dev);
    let Some(mut added) = or_none(new_file::clone(target, found, &known))? else { return Ok(None) };
    added.entry.meta.dev = source.status.dev;
    if let (Body::File(file), Some(old)) = (&mut added.entry.body, old.file()) {
        file.holes = old.holes;
        file.hash = old.hash;
    }
    added.count_clone();
    Ok(Some(added))
}

/// Writes content that is in memory.
fn write_held(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    held: &Held,
    reason: Reason,
) -> std::result::Result<AddedEntry, CopyError> {
    let file = target.create(found, &source.attributes(target.staged)).map_err(CopyError::Destination)?;
    let copied = held.write(&file, target.context.hashes(), target.context.monitor)?;
    new_file::complete_copy(target.staged, found, source, &file, &copied, reason)
}

/// The result of reading a file.
struct Content {
    /// `None` if the last snapshot lacks the content, as a few blocks showed, or if its holes are too large for
    /// hashing.
    hash: Option<[u8; 32]>,
    read: u64,
    held: Option<Held>,
}

/// Whether an inode, open as `source`, is as it was when the last snapshot recorded it. A ctime without a fraction is
/// not trusted: it may be made up, as in images that must be the same wherever they are built.
fn is_untouched(old: &Entry, status: &Status, devices: &Devices, source: BorrowedFd<'_>) -> bool {
    let meta = &old.meta;
    (meta.dev, meta.ino, meta.mtime, meta.ctime) == (status.dev, status.ino, status.mtime, status.ctime)
        && status.ctime.nanos != 0
        && old.file().is_some_and(|file| file.size == status.size && !file.changed)
        && devices.is_settled(meta, &devices.relation(meta.dev, status.dev, source))
}

/// Opens the last snapshot's file at an address, if it still has the type, size and time of its record.
fn open_known(
    previous: &Previous,
    address: Address,
    is_same: impl FnOnce(&Entry) -> bool,
) -> Option<(Entry, OwnedFd, Status)> {
    let (mut path, entry) = previous.reader.entry_at(address).ok()??;
    if !is_same(&entry) {
        return None;
    }
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(&entry.name);
    let fd = openat::open_regular_at(previous.tree.as_fd(), &path).ok()?;
    let status = Status::of(&fd).ok()?;
    let is_as_recorded = status.file_type() == FileType::RegularFile
        && status.mtime == entry.meta.mtime
        && entry.file().is_some_and(|file| file.size == status.size);
    is_as_recorded.then_some((entry, fd, status))
}

/// Whether a large file has the same blocks in a few places as one of the last snapshot's files of its size, and how
/// many bytes were read to find out. If many files have this size, nothing is read: then only the hash decides.
fn resembles_one(index: &ContentIndex, previous: &Previous, fd: BorrowedFd<'_>, size: u64) -> (bool, u64) {
    if index.of_size(size).nth(TRIES).is_some() {
        return (true, 0);
    }
    let mut read = 0;
    let places = [0, size / 2 / SAMPLE * SAMPLE, size.saturating_sub(SAMPLE)];
    let mut sample = |fd: BorrowedFd<'_>, at: u64| {
        let mut buffer = [0; SAMPLE as usize];
        let got = read_full(fd, &mut buffer, at).ok()?;
        read += got as u64;
        buffer.get(..got).map(<[u8]>::to_vec)
    };
    let ours = places.map(|at| sample(fd, at));
    let found = index.of_size(size).any(|address| {
        let Some((_, old, _)) = open_known(previous, address, |_| true) else { return false };
        places.iter().zip(&ours).all(|(at, ours)| ours.is_some() && *ours == sample(old.as_fd(), *at))
    });
    (found, read)
}
