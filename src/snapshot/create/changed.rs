//! Changed files: what the last snapshot has of them is shared with it, down to the block. How is in `delta`; here it is
//! decided for which files, and what the manifest says of them.
//!
//! On the snapshot's own filesystem the source is cloned, which is one moment, and the clone shares with the last version
//! what is equal. From another filesystem the last version is cloned, and the blocks that differ are written into it.

use super::context::Target;
use super::fill::Source;
use super::record::Brought;
use super::seen::Seen;
use super::staged::Staged;
use super::stats::Stats;
use crate::content::copy::{self, Copied, CopyError, Engine, Reason, Request};
use crate::content::delta::{self, Base, List, Options};
use crate::content::hash;
use crate::error::{Error, Result};
use crate::extents::layout;
use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::fs::sparse;
use crate::fs::status::Status;
use crate::monitor::{Amount, Change};
use crate::snapshot::manifest::{Body, Entry, FileBody, Stored};
use crate::util::mutex::lock;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// On the snapshot's own filesystem a changed file below this size, in bytes, is only cloned. To compare it takes a
/// second cold inode and a second cold read, which is what makes a night of many small files long; and what could be shared of
/// it is written anew by most programs in any case.
const LEAST_CLONED: u64 = 1 << 20;
/// From another filesystem a changed file of fewer blocks is written whole: one write, against an open, a clone, a read.
const LEAST_BLOCKS: u64 = 4;
/// Files from this size on, in bytes, have a list of their hashes, and several threads read them.
pub(super) const LARGE: u64 = 8 << 20;
/// How many threads read a large file: some wait for short reads of the last version while others keep a solid-state disk busy.
const READERS: usize = 8;

/// What became of a changed file.
pub(super) enum Changed {
    /// It is brought in as of one moment, whatever has happened to the source since.
    Frozen(Brought),
    /// It is brought in, if the source is still as it was.
    Brought(Brought),
    /// The source changed while it was cloned; nothing is left of that. Never the outcome of the last try.
    Meanwhile,
    /// It is not worth it, or there is nothing to compare with. Nothing was made.
    NotCompared,
}

/// The last snapshot's version of a file.
struct Last {
    fd: OwnedFd,
    status: Status,
    /// Its hash, if the file is the one that the manifest means.
    hash: Option<[u8; 32]>,
}

/// What a way to bring a file in yields.
struct Content {
    data: u64,
    holes: u64,
    written: u64,
    read: u64,
    hash: Option<[u8; 32]>,
}

impl Staged {
    /// Keeps the list of hashes that the last snapshot has of an entry's content, if it has one.
    pub(super) fn carry_list(&self, entry: &Entry) {
        if let Some(FileBody { size: LARGE.., hash: Some(hash), .. }) = entry.file() {
            self.blocks.carry(hash);
        }
    }
}

impl Target<'_> {
    /// Brings a changed file in by comparing it with its last version. The last try takes a clone as it is, though the source
    /// changed about the same moment: the clone is of one moment too, and the status that is recorded is an older one, so that
    /// the next run looks at the file again.
    pub(super) fn changed(&self, seen: &Seen<'_>, source: &Source, is_last_try: bool) -> Result<Changed> {
        let status = &source.status;
        let is_same = self.context.is_same_filesystem(status.dev, self.directory.fd.as_fd(), self.staged);
        if !self.is_compared(seen, is_same) {
            return Ok(Changed::NotCompared);
        }
        let Some(last) = self.last(seen) else { return Ok(Changed::NotCompared) };
        let _alone = (status.size >= LARGE).then(|| lock(&self.staged.large));
        let made = if is_same {
            self.clone_and_share(seen, source, &last, is_last_try)
        } else {
            self.update(seen, source, &last)
        };
        match made {
            Ok(Changed::Meanwhile) => {
                self.withdraw(seen.name)?;
                Ok(Changed::Meanwhile)
            }
            Ok(done) => Ok(done),
            Err(CopyError::Source(Errno::CANCELED)) => Err(Error::interrupted()),
            Err(CopyError::Destination(errno)) if copy::is_fatal(errno) => Err(self.cannot_make(seen.name, errno)),
            // Another entry has the name: that entry stays.
            Err(CopyError::Destination(Errno::EXIST)) => Ok(Changed::NotCompared),
            // The plain way that follows meets it too, and names it, or succeeds.
            Err(_) => {
                self.withdraw(seen.name)?;
                Ok(Changed::NotCompared)
            }
        }
    }

    /// Whether a file is to be compared with its last version, as far as that can be told before anything is opened.
    pub(super) fn is_compared(&self, seen: &Seen<'_>, is_same_filesystem: bool) -> bool {
        let least = if is_same_filesystem { LEAST_CLONED } else { LEAST_BLOCKS * self.staged.filesystem.block_size };
        matches!(seen.change, Some(Change::Content | Change::Metadata))
            && seen.status.size >= least
            && seen.old.as_ref().and_then(Entry::file).is_some_and(|old| old.size >= least)
            && self.staged.filesystem.reflink
            && self.context.previous.is_some()
    }

    /// Copies the content of a file that is new here, and keeps its hashes if it is large.
    pub(super) fn copy_content(&self, source: &Source, file: &OwnedFd) -> std::result::Result<Copied, CopyError> {
        let size = source.status.size;
        let hashed = self.is_hashed(source);
        if size < LARGE || !hashed || !self.staged.filesystem.reflink {
            let request = Request { engine: None, hashed };
            let Source { fd, status, .. } = source;
            return copy::data(fd.as_fd(), status, file.as_fd(), &self.staged.ladder, &request, self.context.monitor);
        }
        let _alone = lock(&self.staged.large);
        let updated = self.listed(source, |list| {
            delta::update(source.fd.as_fd(), size, None, file.as_fd(), list, &self.comparison(size, hashed))
        })?;
        let delta::Updated { data, holes, read, hash, .. } = updated;
        Ok(Copied { data, holes, read, hash, ..Copied::by(Engine::Buffered) })
    }

    /// Whether the content of a source is hashed: if the user wants hashes, and its holes are not too large for that.
    pub(super) fn is_hashed(&self, source: &Source) -> bool {
        self.context.hashes() && hash::is_hashed(&source.fd, &source.status).unwrap_or(true)
    }

    fn comparison(&self, size: u64, hashed: bool) -> Options<'_> {
        let readers = self.context.options.threads.unwrap_or(READERS).clamp(1, READERS);
        Options {
            block: self.staged.filesystem.block_size.next_power_of_two().clamp(512, 64 << 10),
            hashed,
            threads: if size >= LARGE { readers } else { 1 },
            monitor: self.context.monitor,
        }
    }

    /// Opens the last snapshot's version.
    fn last(&self, seen: &Seen<'_>) -> Option<Last> {
        let old = seen.old.as_ref()?;
        let tree = &self.context.previous?.tree;
        let above = self.directory.place.previous(tree.as_fd(), &self.directory.path)?;
        let fd = openat::open_file(above, seen.name).ok()?;
        let status = Status::of(&fd).ok()?;
        let file = old.file().filter(|_| status.file_type() == FileType::RegularFile)?;
        let is_meant = status.size == file.size && status.mtime == old.meta.mtime && !file.changed;
        Some(Last { fd, status, hash: file.hash.filter(|_| is_meant) })
    }

    /// For a source on the same filesystem: its clone, which then shares with the last version.
    fn clone_and_share(
        &self,
        seen: &Seen<'_>,
        source: &Source,
        last: &Last,
        is_last_try: bool,
    ) -> std::result::Result<Changed, CopyError> {
        let Source { fd, status, .. } = source;
        let file = self.create(seen.name, &source.attributes(self.staged)).map_err(CopyError::Destination)?;
        self.staged.ladder.clone(fd, status.dev, &file).map_err(|_| CopyError::Destination(Errno::OPNOTSUPP))?;
        if !is_last_try && !Status::of(fd).is_ok_and(|after| after.is_untouched_since(status)) {
            return Ok(Changed::Meanwhile);
        }
        let size = Status::of(&file).map_err(CopyError::Destination)?.size;
        let hashed = self.is_hashed(source);
        let is_same = last.status.size == size
            && (last.hash.is_some() || !hashed)
            && layout::has_same_extents(file.as_fd(), last.fd.as_fd()).unwrap_or(false);
        let content = if is_same {
            let holes = sparse::holes(&file, size).map_err(CopyError::Source)?;
            self.context.monitor.advance(Amount { files: 0, bytes: size });
            let hash = last.hash.filter(|_| hashed);
            Content { data: size - holes, holes, written: 0, read: 0, hash }
        } else {
            let base = Base { file: last.fd.as_fd(), size: last.status.size, list: None };
            let by_extent = self.staged.filesystem.kind == Kind::Btrfs;
            let shared = delta::share(file.as_fd(), size, &base, by_extent, &self.comparison(size, hashed))?;
            let delta::Shared { data, holes, written, read, hash, .. } = shared;
            Content { data, holes, written, read, hash }
        };
        self.finish(seen, source, &file, &content, Reason::Pinned).map(Changed::Frozen)
    }

    /// For a source elsewhere: the last version's clone, into which the blocks that differ are written.
    fn update(&self, seen: &Seen<'_>, source: &Source, last: &Last) -> std::result::Result<Changed, CopyError> {
        let size = source.status.size;
        let file = self.create(seen.name, &source.attributes(self.staged)).map_err(CopyError::Destination)?;
        let cloned = self.staged.ladder.clone(&last.fd, last.status.dev, &file);
        cloned.map_err(|_| CopyError::Destination(Errno::OPNOTSUPP))?;
        let hashed = self.is_hashed(source);
        let list: Option<List> =
            last.hash.filter(|_| hashed).and_then(|hash| self.staged.blocks.list(last.status.size, &hash));
        let base = Base { file: last.fd.as_fd(), size: last.status.size, list: list.as_ref() };
        let updated = self.listed(source, |list| {
            delta::update(source.fd.as_fd(), size, Some(&base), file.as_fd(), list, &self.comparison(size, hashed))
        })?;
        let delta::Updated { data, holes, written, read, base_read, hash, .. } = updated;
        let content = Content { data, holes, written, read: read + base_read, hash };
        let reason = if self.staged.ladder.known(source.status.dev).is_some_and(|known| known.is_ok()) {
            Reason::Failed
        } else {
            Reason::OtherFilesystem
        };
        self.finish(seen, source, &file, &content, reason).map(Changed::Brought)
    }

    /// Runs an update with a new list, if the file is large, and keeps that if it was written whole.
    fn listed(
        &self,
        source: &Source,
        update: impl FnOnce(Option<&delta::NewList>) -> std::result::Result<delta::Updated, CopyError>,
    ) -> std::result::Result<delta::Updated, CopyError> {
        let size = source.status.size;
        let draft = (size >= LARGE && self.is_hashed(source)).then(|| self.staged.blocks.begin(size)).flatten();
        let result = update(draft.as_ref().map(|draft| &draft.list));
        if let Some(draft) = &draft {
            let hash = result.as_ref().ok().filter(|updated| updated.listed).and_then(|updated| updated.hash);
            self.staged.blocks.end(draft, hash.as_ref());
        }
        result
    }

    /// Gives the file its attributes, and makes its record.
    fn finish(
        &self,
        seen: &Seen<'_>,
        source: &Source,
        file: &OwnedFd,
        content: &Content,
        reason: Reason,
    ) -> std::result::Result<Brought, CopyError> {
        let status = &source.status;
        let attributes = source.attributes(self.staged);
        let refused = self.staged.creator.finish(file, status.mode, &attributes).map_err(CopyError::Destination)?;
        let meta = source.meta(refused);
        let Content { data, holes, written, read, hash } = *content;
        let cloned = data.saturating_sub(written);
        let mut cost = Stats {
            bytes: data + holes,
            cloned_bytes: cloned,
            range_shared_bytes: cloned,
            copied_bytes: written,
            read_bytes: read,
            hole_bytes: holes,
            ..Stats::default()
        };
        if written > 0 {
            cost.reasons.insert(reason, written);
        }
        let stored = if written > 0 && cloned == 0 { Stored::Copied } else { Stored::Cloned };
        let body = FileBody { size: data + holes, holes, hash, stored, changed: false };
        Ok(Brought { entry: Entry { name: seen.name.to_vec(), meta, body: Body::File(body) }, cost })
    }
}
