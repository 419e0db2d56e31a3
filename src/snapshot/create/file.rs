//! Regular files: cloned from the source where that works, else from the last snapshot, else copied.
//!
//! Most files take the fast path, in three steps over a group: open and look at the sources (device waits, many threads at
//! once), create and clone (few threads at once), then check that nothing was written meanwhile, and hash. What does not
//! fit takes the thorough path, one file at a time, with its retries.
//!
//! An unchanged file on the snapshot's own filesystem is cloned from the source and not from the last snapshot: its inode
//! has just been read, so the last snapshot's need not be; and the snapshot shares with the file that lives on, so pruning
//! older ones gives space back even after a defragmentation. That it is the same content is checked by its status, before
//! and after, on the open file.

use super::changed::Changed;
use super::context::{NAME_TAKEN, Target};
use super::fill::Source;
use super::record::{Brought, unread_xattrs};
use super::seen::Seen;
use super::stats::Stats;
use crate::content::copy::{self, CopyError};
use crate::content::hash;
use crate::error::{Error, Result};
use crate::fs::metadata;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::manifest::{Body, Entry};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// How many files go through the steps together: this many sources are open a thread.
pub(super) const GROUP: usize = 64;

/// How often a file that changes while it is read is read again.
const ATTEMPTS: usize = 3;

impl Target<'_> {
    /// Brings the regular files of a group in. The result has a place for each of the group; other types and files that
    /// failed have none.
    pub(super) fn files(&self, group: &[Seen<'_>], part: &mut Stats) -> Result<Vec<Option<Entry>>> {
        let mut sources: Vec<Option<Source>> = Vec::with_capacity(group.len());
        for seen in group {
            let is_fast = self.is_fast(seen);
            sources.push(if is_fast { self.open_seen(seen).ok() } else { None });
        }
        let mut cloned: Vec<Option<Brought>> = Vec::with_capacity(group.len());
        let mut failure = None;
        if sources.iter().any(Option::is_some) {
            self.staged.write(|| {
                for (seen, source) in group.iter().zip(&sources) {
                    let brought = source.as_ref().map(|source| self.clone_source(seen, source));
                    cloned.push(match brought.transpose() {
                        // The thorough path tries what a clone refused.
                        Ok(brought) => brought.and_then(std::result::Result::ok),
                        Err(error) => {
                            failure.get_or_insert(error);
                            None
                        }
                    });
                }
            });
        }
        if let Some(error) = failure {
            return Err(error);
        }
        cloned.resize_with(group.len(), || None);
        let mut entries = Vec::with_capacity(group.len());
        for ((seen, source), brought) in group.iter().zip(sources).zip(cloned) {
            let verified = match (source, brought) {
                (Some(source), Some(brought)) => self.verify(seen, &source, brought)?,
                _ => None,
            };
            let only_read = verified.is_some();
            let brought = match verified {
                Some(brought) => Some(brought),
                None if seen.status.file_type() == FileType::RegularFile => {
                    self.once(seen, part, |part| self.thorough(seen, part))?
                }
                None => None,
            };
            entries.push(brought.map(|brought| {
                part.add(&brought.cost);
                // For clones, most of what a night makes, it takes as long as it saves.
                if brought.cost.copied_bytes > 0 {
                    self.staged.ahead.made(1, brought.cost.copied_bytes);
                }
                self.note_finished(&brought, !only_read);
                brought.entry
            }));
        }
        Ok(entries)
    }

    /// A single-named file that the filesystem is known to clone, or one with nothing in it.
    fn is_fast(&self, seen: &Seen<'_>) -> bool {
        let status = &seen.status;
        status.file_type() == FileType::RegularFile
            && status.nlink == 1
            && !self.is_to_link(seen)
            && self.staged.filesystem.reflink
            && self.context.is_same_filesystem(status.dev, self.directory.fd.as_fd(), self.staged)
            && !self.is_compared(seen, true)
    }

    /// Hashes what is new, then asks whether the source is still as it was. `None`: it is not, and the copy is gone.
    fn verify(&self, seen: &Seen<'_>, source: &Source, mut brought: Brought) -> Result<Option<Brought>> {
        if seen.change.is_some() && self.context.hashes() {
            // Nothing is read but what was seen.
            if !Status::of(&source.fd).is_ok_and(|now| now.is_untouched_since(&source.status)) {
                self.withdraw(seen.name)?;
                return Ok(None);
            }
            match self.hash(source, &mut brought) {
                Ok(()) => {}
                Err(Errno::CANCELED) => return Err(Error::interrupted()),
                Err(_) => {
                    self.withdraw(seen.name)?;
                    return Ok(None);
                }
            }
        }
        match Status::of(&source.fd) {
            Ok(after) if after.is_untouched_since(&source.status) => Ok(Some(brought)),
            _ => {
                self.withdraw(seen.name)?;
                Ok(None)
            }
        }
    }

    /// One file by all means: other filesystems, files that cannot be cloned or that change meanwhile.
    fn thorough(&self, seen: &Seen<'_>, part: &mut Stats) -> Result<Option<Brought>> {
        if let Some(linked) = self.link_previous(seen)? {
            return Ok(Some(linked));
        }
        match self.clone_previous(seen)? {
            Some(brought) => Ok(Some(brought)),
            None => self.take_source(seen, part),
        }
    }

    /// An unchanged file from another filesystem: the last snapshot has it, and the source is not opened.
    fn clone_previous(&self, seen: &Seen<'_>) -> Result<Option<Brought>> {
        let (None, Some(old)) = (seen.change, &seen.old) else { return Ok(None) };
        let is_same = || self.context.is_same_filesystem(seen.status.dev, self.directory.fd.as_fd(), self.staged);
        if !self.staged.filesystem.reflink || is_same() {
            return Ok(None);
        }
        let (Some(old_file), Some(previous)) = (old.file(), self.previous()) else { return Ok(None) };
        let Ok(fd) = openat::open_file(previous, seen.name) else { return Ok(None) };
        let Ok(status) = Status::of(&fd) else { return Ok(None) };
        if status.file_type() != FileType::RegularFile || status.size != old_file.size {
            return Ok(None);
        }
        let mut xattrs = Vec::new();
        if old.meta.has_xattrs {
            // If they cannot be read here, the source has them.
            let Ok(present) = metadata::xattrs(&fd) else { return Ok(None) };
            xattrs = present;
        }
        for (name, value) in old.meta.kept_xattrs.iter().filter(|(name, _)| !metadata::is_alias(name)) {
            xattrs.retain(|(present, _)| present != name.as_ref());
            xattrs.push((name.to_vec(), value.to_vec()));
        }
        // The content is the last snapshot's, the status the source's: they are equal but for the access time.
        let fileattr = old.meta.fileattr();
        let status = Status { dev: status.dev, ..seen.status };
        let source = Source { fd, status, xattrs, fileattr, recheck: false, unread: None };
        let Ok(mut brought) = self.clone_source(seen, &source)? else { return Ok(None) };
        brought.entry.meta.dev = seen.status.dev;
        brought.entry.meta.has_xattrs = old.meta.has_xattrs;
        Ok(Some(brought))
    }

    /// Clones or copies from the source, again if it changes meanwhile.
    fn take_source(&self, seen: &Seen<'_>, part: &mut Stats) -> Result<Option<Brought>> {
        for attempt in 1.. {
            let source = match self.open_now(seen.name) {
                Ok(Some(source)) => source,
                // Deleted meanwhile: it is not there.
                Err(Errno::NOENT) => return Ok(None),
                // A link is not followed, a socket cannot be opened.
                Ok(None) | Err(Errno::LOOP | Errno::NXIO) => {
                    let error = Error::failed("take in").at(self.path(seen));
                    self.problem(&error.hint("it became something else while its directory was read; run again"), part);
                    return Ok(None);
                }
                Err(errno) => {
                    self.problem(&Error::io("open", self.path(seen), errno), part);
                    return Ok(None);
                }
            };
            if let Some(errno) = source.unread.filter(|_| attempt == 1) {
                self.problem(&unread_xattrs(self.path(seen), errno), part);
            }
            // What was seen by name may be older than what was opened.
            let is_same = source.status.is_untouched_since(&seen.status);
            let changed = if is_same { seen.change } else { seen.change.or(Some(Change::Content)) };
            let now = Seen { name: seen.name, status: source.status, old: seen.old.clone(), change: changed };
            let is_last_try = attempt == ATTEMPTS;
            let taken = match self.take_over(&now, &source, part)? {
                Some(brought) => Changed::Brought(brought),
                None => match self.changed(&now, &source, is_last_try)? {
                    Changed::NotCompared => self.take_plainly(&now, &source, is_last_try, part)?,
                    taken => taken,
                },
            };
            let mut brought = match taken {
                Changed::Frozen(brought) => return Ok(Some(brought)),
                Changed::Brought(brought) => brought,
                Changed::Meanwhile => continue,
                // It was left out, and told.
                Changed::NotCompared => return Ok(None),
            };
            if Status::of(&source.fd).is_ok_and(|after| after.is_untouched_since(&source.status)) {
                return Ok(Some(brought));
            }
            if is_last_try {
                let error = Error::failed("take a quiet copy of").at(self.path(seen));
                self.problem(&error.hint("it changed each time it was read; the last try was kept and marked"), part);
                if let Body::File(file) = &mut brought.entry.body {
                    file.changed = true;
                }
                return Ok(Some(brought));
            }
            self.withdraw(seen.name)?;
            part.read_bytes += brought.cost.read_bytes;
        }
        Ok(None)
    }

    /// Clones or copies an open source, without regard to an earlier version. What cannot be taken is left out, and told.
    fn take_plainly(&self, seen: &Seen<'_>, source: &Source, is_last_try: bool, part: &mut Stats) -> Result<Changed> {
        let skip = |action, errno, part| self.skip(seen, action, errno, part).map(|()| Changed::NotCompared);
        match self.clone_source(seen, source)? {
            Ok(brought) => match self.settle(seen, source, brought, is_last_try)? {
                Ok(taken) => Ok(taken),
                Err(errno) => skip("read", errno, part),
            },
            Err(reason) => match self.copy_unless_known(seen, source, reason)? {
                Ok(brought) => Ok(Changed::Brought(brought)),
                Err(CopyError::Source(Errno::CANCELED)) => Err(Error::interrupted()),
                Err(CopyError::Source(errno)) => skip("read", errno, part),
                Err(CopyError::Destination(errno)) if copy::is_fatal(errno) => Err(self.cannot_make(seen.name, errno)),
                Err(CopyError::Destination(errno)) => skip("make in the snapshot", errno, part),
                // No clone is asked for here any more.
                Err(CopyError::Refused(_)) => skip("clone", Errno::OPNOTSUPP, part),
            },
        }
    }

    /// Adds the hash of the source to the record.
    pub(super) fn hash(&self, source: &Source, brought: &mut Brought) -> rustix::io::Result<()> {
        let status = &source.status;
        let hash = if let Some(hash) = self.noted_hash(status, &brought.entry.name) {
            brought.cost.resumed_files = 1;
            Some(hash)
        } else if let Some(hash) = self.known_hash(status, &source.fd) {
            Some(hash)
        } else {
            // A source that may change without a trace is not what was cloned a moment ago.
            let is_loose = self.context.devices.may_change_unnoticed(&brought.entry.meta, None, &source.fd);
            let clone = is_loose.then(|| openat::open_file(self.above, &brought.entry.name).ok()).flatten();
            let hashed = hash::file(clone.as_ref().unwrap_or(&source.fd), status.size, self.context.monitor)?;
            brought.cost.read_bytes += hashed.read;
            hashed.hash
        };
        if let Body::File(file) = &mut brought.entry.body {
            file.hash = hash;
        }
        Ok(())
    }

    /// Leaves a file out, and what was begun of it.
    fn skip(&self, seen: &Seen<'_>, action: &str, errno: Errno, part: &mut Stats) -> Result<()> {
        if errno == Errno::CANCELED {
            return Err(Error::interrupted());
        }
        let error = Error::io(action, self.path(seen), errno);
        if errno == Errno::EXIST {
            // Another file, which must not be taken back.
            self.problem(&error.hint(NAME_TAKEN), part);
            return Ok(());
        }
        self.problem(&error, part);
        self.withdraw(seen.name)
    }

    /// Opens a source and reads its attributes. Whether it still is what was seen is asked later, when it has been read.
    fn open_seen(&self, seen: &Seen<'_>) -> rustix::io::Result<Source> {
        let fd = openat::open_file(self.directory.fd.as_fd(), seen.name)?;
        let unchanged = seen.old.as_ref().filter(|_| seen.change.is_none()).map(|old| &old.meta);
        let has_none = unchanged.is_some_and(|old| !old.has_xattrs);
        let xattrs = if has_none { Vec::new() } else { metadata::xattrs(&fd)? };
        let fileattr = self.context.fileattr(fd.as_fd(), seen.status.dev, unchanged);
        Ok(Source { fd, status: seen.status, xattrs, fileattr, recheck: false, unread: None })
    }

    /// Opens a source as it is now. `None`: it is no regular file any more, and nothing of it was read.
    fn open_now(&self, name: &[u8]) -> rustix::io::Result<Option<Source>> {
        let fd = openat::open_file(self.directory.fd.as_fd(), name)?;
        let status = Status::of(&fd)?;
        if status.file_type() != FileType::RegularFile {
            return Ok(None);
        }
        let recheck = self.context.flusher.flush(&fd, status.dev).is_err();
        let (xattrs, unread) = metadata::readable_xattrs(&fd);
        let fileattr = self.context.fileattr(fd.as_fd(), status.dev, None);
        Ok(Some(Source { fd, status, xattrs, fileattr, recheck, unread }))
    }
}
