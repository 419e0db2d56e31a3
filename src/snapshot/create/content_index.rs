//! Content that the last snapshot has under another name: a file that was renamed, moved or copied on another filesystem
//! is cloned from there, and nothing of it is written.
//!
//! It is found by its hash, after it has been read once; one that was moved with its directory, so that its inode is as it
//! was, without reading. The index of the last manifest that this takes is made when the first such file comes. What is
//! small is held in memory meanwhile, so that it is read once in any case; of what is large a few blocks are compared
//! before all of it is read, since data files of one size are common.

use super::Previous;
use super::context::Target;
use super::devices::Devices;
use super::fill::Source;
use super::lookup::{Gathering, Lookup, identity};
use super::record::Brought;
use super::seen::Seen;
use crate::content::copy::{CopyError, Held, Reason};
use crate::content::hash;
use crate::error::Result;
use crate::fs::openat;
use crate::fs::pread::read_full;
use crate::fs::sparse;
use crate::fs::status::Status;
use crate::monitor::{Event, Monitor};
use crate::snapshot::manifest::{Address, Body, Entry, FileBody, Item, Meta};
use rustix::fs::FileType;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// How many files are found by their content, and how many by their inode: 32 MiB each.
const MOST: usize = 2 << 20;
/// Up to this size, in bytes, content is held in memory.
const HELD: u64 = 1 << 20;
/// On the snapshot's own filesystem the index is made only when so many times the bytes of its blocks were read for hashes.
const WORTH: u64 = 8;
/// What a block of a manifest holds, in bytes.
const BLOCK: u64 = 64 << 10;
/// How many files of the same size and fingerprint are looked at.
const TRIES: usize = 8;
/// How much is compared at each place of a large file, in bytes.
const SAMPLE: u64 = 4096;

/// The last snapshot's files.
#[derive(Debug)]
pub(super) struct ContentIndex {
    by_content: Lookup,
    by_inode: Lookup,
}

/// What looking for the content of a file led to.
enum Looked {
    /// It was there.
    Cloned(Box<Brought>),
    /// It is not there, and in memory now.
    Held(Held),
    /// It is not there; so many bytes were read to know that.
    Nowhere(u64),
}

impl ContentIndex {
    fn of(previous: &Previous, monitor: &dyn Monitor) -> ContentIndex {
        let (mut by_content, mut by_inode) = (Gathering::new(MOST), Gathering::new(MOST));
        let mut items = previous.reader.items();
        while let Some(item) = items.next() {
            // A damaged block is not this index's business: the merge meets it, and says so.
            let Ok(Item::Entry(entry)) = item else { continue };
            let Some(file) = entry.file().filter(|file| file.size > 0 && !file.changed) else { continue };
            let Some(place) = items.address().number() else { continue };
            if let Some(hash) = &file.hash {
                by_content.add(file.size, hash::prefix(hash), place);
            }
            let Meta { ino, mtime, ctime, recheck, .. } = entry.meta;
            if !recheck {
                by_inode.add(file.size, identity(ino, mtime, ctime), place);
            }
        }
        let (by_content, by_inode) = (by_content.end(), by_inode.end());
        if by_content.least() > 0 {
            monitor.event(Event::SmallRenamesIgnored { bytes: by_content.least() });
        }
        ContentIndex { by_content, by_inode }
    }
}

impl Target<'_> {
    /// Brings in a file that cannot be cloned from its source: from the last snapshot, if that has its content, else by
    /// a copy.
    pub(super) fn copy_unless_known(
        &self,
        seen: &Seen<'_>,
        source: &Source,
        reason: Reason,
    ) -> Result<std::result::Result<Brought, CopyError>> {
        Ok(match self.look_up(seen, source)? {
            Ok(Looked::Cloned(brought)) => Ok(*brought),
            Ok(Looked::Held(held)) => self.write_held(seen, source, &held, reason),
            Ok(Looked::Nowhere(read)) => self.copy_source(seen, source, reason).map(|mut brought| {
                brought.cost.read_bytes += read;
                brought
            }),
            Err(errno) => Err(CopyError::Source(errno)),
        })
    }

    fn look_up(&self, seen: &Seen<'_>, source: &Source) -> Result<rustix::io::Result<Looked>> {
        let Source { fd, status, .. } = source;
        let Some(previous) = self.context.previous.filter(|_| self.staged.filesystem.reflink && status.size > 0) else {
            return Ok(Ok(Looked::Nowhere(0)));
        };
        let known = self.context.known.get_or_init(|| ContentIndex::of(previous, self.context.monitor));
        for place in known.by_inode.find(status.size, identity(status.ino, status.mtime, status.ctime)).take(TRIES) {
            let is_same = |old: &Entry| is_untouched(old, status, &self.context.devices, fd.as_fd());
            if let Some(brought) = self.clone_known(previous, place, is_same, seen, source)? {
                return Ok(Ok(Looked::Cloned(Box::new(brought))));
            }
        }
        if !self.context.hashes() || !known.by_content.has_size(status.size) {
            return Ok(Ok(Looked::Nowhere(0)));
        }
        let (hash, read, held) = match self.content(known, previous, fd.as_fd(), status.size) {
            Ok(Content { hash: Some(hash), read, held }) => (hash, read, held),
            Ok(Content { read, .. }) => return Ok(Ok(Looked::Nowhere(read))),
            Err(errno) => return Ok(Err(errno)),
        };
        let holes = match &held {
            Some(held) => Ok(held.holes()),
            None => sparse::holes(fd, status.size),
        };
        let is_same = |old: &FileBody| old.hash == Some(hash) && !old.changed && holes == Ok(old.holes);
        for place in known.by_content.find(status.size, hash::prefix(&hash)).take(TRIES) {
            let is_same = |old: &Entry| old.file().is_some_and(is_same);
            if let Some(mut brought) = self.clone_known(previous, place, is_same, seen, source)? {
                brought.cost.read_bytes += read;
                return Ok(Ok(Looked::Cloned(Box::new(brought))));
            }
        }
        Ok(Ok(held.map_or(Looked::Nowhere(read), Looked::Held)))
    }

    /// The hash of a file on the snapshot's own filesystem that the last snapshot had by another path. `size` bytes will be read
    /// if it is not known.
    pub(super) fn known_hash(&self, status: &Status, source: impl AsFd) -> Option<[u8; 32]> {
        let previous = self.context.previous?;
        let known = match self.context.known.get() {
            Some(known) => known,
            None => {
                let read = self.context.hashed.fetch_add(status.size, Ordering::Relaxed);
                if read.saturating_add(status.size) < WORTH * BLOCK * previous.reader.blocks() as u64 {
                    return None;
                }
                self.context.known.get_or_init(|| ContentIndex::of(previous, self.context.monitor))
            }
        };
        let mut places = known.by_inode.find(status.size, identity(status.ino, status.mtime, status.ctime)).take(TRIES);
        places.find_map(|place| {
            let (_, entry) = previous.reader.entry_at(Address::of_number(place)).ok()??;
            if is_untouched(&entry, status, &self.context.devices, source.as_fd()) { entry.file()?.hash } else { None }
        })
    }

    /// Reads a file of a size that the last snapshot has, unless it looks like none of those.
    fn content(
        &self,
        known: &ContentIndex,
        previous: &Previous,
        fd: BorrowedFd<'_>,
        size: u64,
    ) -> rustix::io::Result<Content> {
        if size <= HELD {
            let held = Held::read(fd, size)?;
            return Ok(Content { hash: Some(held.hash()), read: held.data(), held: Some(held) });
        }
        let (resembles, sampled) = resembles_one(known, previous, fd, size);
        if !resembles {
            return Ok(Content { hash: None, read: sampled, held: None });
        }
        let hashed = hash::file(fd, size, self.context.monitor)?;
        Ok(Content { hash: hashed.hash, read: sampled + hashed.read, held: None })
    }

    /// Clones the last snapshot's file at this place, if its record is as it has to be and the file still is what that says.
    fn clone_known(
        &self,
        previous: &Previous,
        place: u64,
        is_same: impl FnOnce(&Entry) -> bool,
        seen: &Seen<'_>,
        source: &Source,
    ) -> Result<Option<Brought>> {
        let Some((old, fd, status)) = open_known(previous, place, is_same) else { return Ok(None) };
        let status = Status { dev: status.dev, ..source.status };
        let known = Source {
            fd,
            status,
            xattrs: source.xattrs.clone(),
            fileattr: source.fileattr,
            recheck: source.recheck,
            unread: source.unread,
        };
        let Ok(mut brought) = self.clone_source(seen, &known)? else { return Ok(None) };
        brought.entry.meta.dev = source.status.dev;
        if let (Body::File(file), Some(old)) = (&mut brought.entry.body, old.file()) {
            file.holes = old.holes;
            file.hash = old.hash;
        }
        Ok(Some(brought))
    }

    /// Writes what was read already.
    fn write_held(
        &self,
        seen: &Seen<'_>,
        source: &Source,
        held: &Held,
        reason: Reason,
    ) -> std::result::Result<Brought, CopyError> {
        let file = self.create(seen.name, &source.attributes(self.staged)).map_err(CopyError::Destination)?;
        let copied = held.write(&file, self.context.hashes(), self.context.monitor)?;
        self.copied(seen, source, &file, &copied, reason)
    }
}

/// What was read of a file.
struct Content {
    /// `None`: no more was read than shows that the last snapshot does not have it, or its holes are too large to be hashed.
    hash: Option<[u8; 32]>,
    read: u64,
    held: Option<Held>,
}

/// Whether an inode, open as `source`, is as it was when the last snapshot took it. Times without a fraction may have been made
/// up, as in images that are to be the same wherever they are built.
fn is_untouched(old: &Entry, status: &Status, devices: &Devices, source: BorrowedFd<'_>) -> bool {
    let meta = &old.meta;
    (meta.dev, meta.ino, meta.mtime, meta.ctime) == (status.dev, status.ino, status.mtime, status.ctime)
        && status.ctime.nanos != 0
        && old.file().is_some_and(|file| file.size == status.size && !file.changed)
        && devices.is_settled(meta, &devices.relation(meta.dev, status.dev, source))
}

/// Opens the last snapshot's file at a place, if it still has the type, size and time of its record.
fn open_known(
    previous: &Previous,
    place: u64,
    is_same: impl FnOnce(&Entry) -> bool,
) -> Option<(Entry, OwnedFd, Status)> {
    let (mut path, entry) = previous.reader.entry_at(Address::of_number(place)).ok()??;
    if !is_same(&entry) {
        return None;
    }
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(&entry.name);
    let fd = openat::open_file_at(previous.tree.as_fd(), &path).ok()?;
    let status = Status::of(&fd).ok()?;
    let is_as_recorded = status.file_type() == FileType::RegularFile
        && status.mtime == entry.meta.mtime
        && entry.file().is_some_and(|file| file.size == status.size);
    is_as_recorded.then_some((entry, fd, status))
}

/// Whether a large file has the same blocks in a few places as one of the last snapshot's of its size, and how much was
/// read to know that. Of many of one size nothing is read: then only the hash can tell.
fn resembles_one(known: &ContentIndex, previous: &Previous, fd: BorrowedFd<'_>, size: u64) -> (bool, u64) {
    if known.by_content.of_size(size).nth(TRIES).is_some() {
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
    let found = known.by_content.of_size(size).any(|place| {
        let Some((_, old, _)) = open_known(previous, place, |_| true) else { return false };
        places.iter().zip(&ours).all(|(at, ours)| ours.is_some() && *ours == sample(old.as_fd(), *at))
    });
    (found, read)
}
