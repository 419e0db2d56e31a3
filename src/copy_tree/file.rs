//! Regular files: made aside with content and metadata, and put in their place if the source is still as it was.
//!
//! A group goes through two steps: open the sources, ask for what is to be read of them, on as many threads as the device's
//! queue likes; then create, fill and finish, on few threads at once. So the reads of a whole group are under way before the
//! first is waited for.

use super::Stats;
use super::TEMPORARY;
use super::entries::{Pair, Placed, Seen, Waiting};
use super::outcome::{self, Attempt, Failure};
use super::pending::{self, Pending};
use crate::content::copy::{self, Copied, CopyError, Engine, Reason};
use crate::error::{Advice, Error, Result};
use crate::fs::filesystem::Kind;
use crate::fs::metadata::{self, Attributes, FileAttr, Others, Xattr};
use crate::fs::openat;
use crate::fs::pread;
use crate::fs::status::{Status, Time};
use crate::tree::walk::absolute;
use crate::tree::writer::{self, TempFile, Unsynced, Version};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many files go through the steps together: this many sources are open a thread.
pub(super) const GROUP: usize = 64;

/// Files from this size on are copied on a thread of their own.
pub(super) const LARGE: u64 = 1 << 20;

/// How much is asked for ahead of a group at most.
const AHEAD: u64 = 16 << 20;

/// How often a file that changes while it is copied is copied again.
pub(super) const ATTEMPTS: usize = 3;

/// A source that has been opened, with the status that it must still have when all is done.
pub(super) struct Source {
    fd: OwnedFd,
    kept: Kept,
}

/// What is kept of a source besides its content.
pub(super) struct Kept {
    pub(super) status: Status,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) fileattr: FileAttr,
    /// Why not all of its extended attributes could be read.
    pub(super) unread: Option<Errno>,
}

impl Kept {
    /// What its copy gets before it is in its place. The project and the seals come then.
    fn attributes(&self) -> Attributes<'_> {
        Attributes::of(&self.status, &self.xattrs).with(FileAttr { project: None, ..self.fileattr })
    }
}

impl<'a> Pair<'a> {
    /// Brings small files over, each with one name, that are not there or not as they should be.
    pub(super) fn files(&self, group: &[Seen<'_>], part: &mut Stats) -> Result<()> {
        let before = (part.files, part.copied_bytes);
        let (ring, mut plain): (Vec<_>, Vec<_>) = group.iter().partition(|seen| self.is_for_ring(&seen.status));
        let pays = copy::ring_pays(self.context.request.engine, ring.len());
        if !pays || !self.context.writers.with(|| self.files_by_ring(&ring, part))? {
            plain.extend(ring);
        }
        let mut sources = Vec::with_capacity(plain.len());
        let mut ahead = 0;
        for seen in plain {
            match self.open(seen.name) {
                Ok(Some(source)) => {
                    if ahead < AHEAD && self.is_read(source.kept.status.dev) {
                        pread::prefetch(&source.fd, 0..source.kept.status.size);
                        ahead += source.kept.status.size;
                    }
                    sources.push((seen, source));
                }
                Ok(None) => {}
                Err(failure) => self.tell(failure, part)?,
            }
        }
        self.context.writers.with(|| {
            sources.into_iter().try_for_each(|(seen, source)| {
                self.file(seen, Some(source), part).map(|_| ()).or_else(|failure| self.tell(failure, part))
            })
        })?;
        self.context.writeback.made(part.files - before.0, part.copied_bytes - before.1);
        Ok(())
    }

    /// Whether a small file goes through io_uring.
    fn is_for_ring(&self, status: &Status) -> bool {
        let place = self.place();
        let kind = place.target.as_ref().and_then(|target| place.device.ladder.kind(target));
        // What says that it is empty may be a file of procfs, which is read until it ends.
        status.size > 0
            && self.is_read(status.dev)
            && copy::goes_by_ring(self.context.request.engine, status.size, kind)
    }

    /// Whether the content of files from this device will be read, as far as that is known. Before the first clone was tried,
    /// in the first group of each thread, the plan tells.
    fn is_read(&self, dev: u64) -> bool {
        match self.context.request.engine {
            None => match self.place().device.ladder.known(dev) {
                Some(known) => known.is_err(),
                None => !self.context.plan.may_clone,
            },
            engine => engine != Some(Engine::Clone),
        }
    }

    /// Brings a file over, again if it changes meanwhile, or if somebody else makes one.
    pub(super) fn file(&self, seen: &Seen<'_>, first: Option<Source>, part: &mut Stats) -> Attempt<Placed> {
        let brought = self.file_once(seen, first, part);
        self.or_again(brought, seen, part)
    }

    /// Brings a file over, again if it changes meanwhile.
    pub(super) fn file_once(&self, seen: &Seen<'_>, first: Option<Source>, part: &mut Stats) -> Attempt<Placed> {
        let mut first = first;
        for attempt in 1.. {
            let source = match first.take() {
                Some(source) => source,
                None => match self.open(seen.name)? {
                    Some(source) => source,
                    None => return Ok(Placed::default()),
                },
            };
            let (aside, copied) = self.fill(seen, &source)?;
            let is_quiet = Status::of(&source.fd).is_ok_and(|now| now.is_untouched_since(&source.kept.status));
            if !is_quiet && attempt < ATTEMPTS {
                part.read_bytes += copied.read;
                continue;
            }
            let placed = self.put(seen, &source.kept, aside, &copied)?;
            count(&copied, part);
            let status = Status { size: copied.size(), ..source.kept.status };
            self.done(&Seen { status, ..*seen }, false, part);
            if !is_quiet {
                let error = Error::failed("take a quiet copy of").at(absolute(&self.directory.join(seen.name)));
                let hint = "it changed each time it was read, and the last try was kept; run again when it is quiet";
                self.context.problem(&error.hint(hint), part);
            }
            return Ok(placed);
        }
        Ok(Placed::default())
    }

    /// Opens a source and reads what is kept of it besides its content. `None`: it is gone.
    fn open(&self, name: &[u8]) -> Attempt<Option<Source>> {
        let fail = |action, errno| self.unreadable(name, action, errno);
        let fd = match openat::open_file(self.directory.fd.as_fd(), name) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(fail("open", errno)),
        };
        let status = Status::of(&fd).map_err(|errno| fail("read the status of", errno))?;
        if status.file_type() != FileType::RegularFile {
            return Err(self.became_something_else(name));
        }
        let kept = self.kept(fd.as_fd(), status);
        Ok(Some(Source { fd, kept }))
    }

    /// Reads what is kept of an open source besides its content, and flushes it: a later store through a mapping will change
    /// its times.
    pub(super) fn kept(&self, fd: BorrowedFd<'_>, status: Status) -> Kept {
        // A disk that does not take the data may give it all the same.
        let _ = self.context.flusher.flush(fd, status.dev);
        let (xattrs, unread) = metadata::readable_xattrs(fd);
        Kept { status, xattrs, fileattr: self.context.fileattrs.of(fd, status.dev), unread }
    }

    pub(super) fn became_something_else(&self, name: &[u8]) -> Failure {
        let error = Error::failed("copy").at(absolute(&self.directory.join(name)));
        Failure::Entry(error.hint("it became something else while its directory was read; run again"))
    }

    /// Makes an empty file aside, with what it must have before its first byte.
    pub(super) fn make(&self, seen: &Seen<'_>, kept: &Kept) -> Attempt<TempFile<'a>> {
        let aside = TempFile::make(self.above()?, TEMPORARY, seen.replaces())
            .map_err(|errno| self.wrong(seen.name, "make", errno))?;
        let prepared = self.place().ground.prepare(&self.context.creator, &aside, &kept.attributes());
        prepared.map_err(|errno| self.wrong(seen.name, "set the metadata of", errno))?;
        Ok(aside)
    }

    /// Makes the file aside, with the content of the source as it is now.
    fn fill(&self, seen: &Seen<'_>, source: &Source) -> Attempt<(TempFile<'_>, Copied)> {
        let context = self.context;
        let aside = self.make(seen, &source.kept)?;
        let ladder = &self.place().device.ladder;
        let copied = copy::content(
            source.fd.as_fd(),
            &source.kept.status,
            aside.as_fd(),
            ladder,
            &context.request,
            context.monitor,
        );
        match copied {
            Ok(copied) => Ok((aside, copied)),
            Err(CopyError::Source(errno)) => Err(self.unreadable(seen.name, "read", errno)),
            Err(CopyError::Destination(errno)) => Err(self.wrong(seen.name, "write", errno)),
            Err(CopyError::Refused(reason)) => Err(self.refused(seen, reason)),
        }
    }

    /// A clone was asked for and nothing else. Where no file of the source's filesystem can be cloned the run ends.
    fn refused(&self, seen: &Seen<'_>, reason: Reason) -> Failure {
        let error = Error::failed("clone").at(absolute(&self.directory.join(seen.name)));
        let error = error.hint(reason.to_string()).advise(Advice::AnyEngine);
        match reason {
            Reason::OtherFilesystem | Reason::NoReflink => Failure::Fatal(error),
            _ => Failure::Entry(error),
        }
    }

    /// Gives a file that has its content its metadata and its name. If data was written, the times come after the next sync,
    /// and so does the name if it is another file's until then.
    pub(super) fn put(&self, seen: &Seen<'_>, kept: &Kept, aside: TempFile<'_>, copied: &Copied) -> Attempt<Placed> {
        let (context, place) = (self.context, self.place());
        let wrong = |action, errno| self.wrong(seen.name, action, errno);
        let is_written = self.is_written(copied);
        let (attributes, is_foreign) = context.creator.within_rights(kept.attributes());
        // A directory with the set-group-id bit, or a mount with `grpid`, gives its own group to what is made in it.
        let given = match (place.fresh, is_written) {
            (true, false) => context.creator.finish(&aside, 0o600, &attributes),
            (true, true) => context.creator.finish_but_times(&aside, 0o600, &attributes),
            (false, false) => context.creator.apply(&aside, &attributes),
            (false, true) => context.creator.apply_but_times(&aside, &attributes),
        };
        let mut refused = given.map_err(|errno| wrong("set the metadata of", errno))?;
        let seal = self.is_sealed(kept.fileattr).then_some(kept.fileattr);
        let (later, seal) = if seen.status.nlink > 1 { (seal, None) } else { (None, seal) };
        let mut placed = Placed { seal: later, waiting: None };
        if is_written {
            placed.waiting = self.put_after_sync(seen, kept, aside, (attributes.atime, attributes.mtime), seal)?;
        } else {
            let file = aside.put(self.target_name(seen.name)).map_err(|errno| wrong("put in place", errno))?;
            if let Some(seal) = seal {
                refused.fileattr.add(seal.seal(file));
            }
        }
        context.not_kept.refused(&refused, is_foreign, || context.shown(&place.join(self.target_name(seen.name))));
        self.report_unread(seen.name, kept.unread);
        Ok(placed)
    }

    /// Whether content was written that may still be in memory only. A clone on XFS and Btrfs has its source written first
    /// and then is a change of metadata like the times and the name, which the journal keeps in their order.
    fn is_written(&self, copied: &Copied) -> bool {
        let is_journaled = matches!(self.place().device.kind, Some(Kind::Xfs | Kind::Btrfs));
        copied.data > 0 && !(copied.engine == Engine::Clone && is_journaled)
    }

    /// Gives a file its name, unless that is another's, and has the rest done after the next sync.
    fn put_after_sync(
        &self,
        seen: &Seen<'_>,
        kept: &Kept,
        aside: TempFile<'_>,
        times: (Time, Time),
        seal: Option<FileAttr>,
    ) -> Attempt<Option<Waiting>> {
        let (context, place) = (self.context, self.place());
        let wrong = |action, errno| self.wrong(seen.name, action, errno);
        let name = self.target_name(seen.name);
        writer::set_provisional_time(&aside, times.1).map_err(|errno| wrong("set the times of", errno))?;
        // What says that it is empty may be a file of procfs, which has no status to speak of.
        let source = match kept.status.size {
            0 => None,
            _ => Some(self.source(seen.name, kept.status)?),
        };
        let target = place.target.as_ref().ok_or_else(|| wrong("put in place", Errno::BADF))?;
        let (file, replacing) = match aside.postpone(target, name) {
            Ok((file, replacing)) => (file, Some(replacing)),
            Err(aside) => (aside.put(name).map_err(|errno| wrong("put in place", errno))?, None),
        };
        let waiting = match seen.status.nlink {
            0 | 1 => None,
            _ => {
                let status = Status::of(&file).map_err(|errno| wrong("look at", errno))?;
                let temporary = replacing.as_ref().map(|replacing| replacing.temporary_name().to_vec());
                Some(Waiting { inode: (status.dev, status.ino), temporary })
            }
        };
        let mut file = Unsynced::named(file, &place.device, times);
        if let Some(replacing) = replacing {
            place.is_pending.store(true, Ordering::Relaxed);
            file = file.replacing(replacing);
        }
        context.after_sync(Pending::File { file, source, seal, path: place.join(name) });
        Ok(waiting)
    }

    fn source(&self, name: &[u8], status: Status) -> Attempt<pending::Source> {
        let known = &self.place().source;
        let dir = match known.get() {
            Some(dir) => Arc::clone(dir),
            None => {
                let dir = rustix::io::fcntl_dupfd_cloexec(&self.directory.fd, 0)
                    .map_err(|errno| outcome::source(&self.directory.path, "keep open", errno))?;
                Arc::clone(known.get_or_init(|| Arc::new(dir)))
            }
        };
        let clock = self.context.clocks.of(status.dev, &self.directory.fd);
        Ok(pending::Source { dir, name: name.to_vec(), path: self.directory.join(name), status, clock })
    }

    /// Reports the extended attributes of a source that could not be read, and counts that.
    pub(super) fn report_unread(&self, name: &[u8], unread: Option<Errno>) {
        // What is gone meanwhile is reported by nobody.
        if let Some(errno) = unread.filter(|errno| *errno != Errno::NOENT) {
            let mut part = Stats::default();
            let error = outcome::unread_xattrs(&self.directory.join(name), errno);
            self.context.problem(&error, &mut part);
            self.context.count(&part);
        }
    }

    /// Gives what is there already the metadata of its source.
    pub(super) fn set_metadata(&self, seen: &Seen<'_>) -> Attempt<Option<FileAttr>> {
        let wrong = |errno| self.wrong(seen.name, "set the metadata of", errno);
        let is_same = |status: &Status| seen.existing.is_some_and(|there| Version::of(&there).is(status));
        let target_name = self.target_name(seen.name);
        if seen.status.file_type() != FileType::RegularFile {
            return self.set_metadata_of_node(seen).map(|()| None);
        }
        let Some(source) = self.open(seen.name)? else { return Ok(None) };
        let file = match openat::open_file(self.above()?, target_name) {
            Ok(file) => file,
            // Nobody may read it, its owner among them: then it gets all but its flags.
            Err(Errno::ACCESS) => return self.set_metadata_of_node(seen).map(|()| None),
            Err(errno) => return Err(wrong(errno)),
        };
        if !Status::of(&file).is_ok_and(|status| is_same(&status)) {
            return Err(wrong(Errno::STALE));
        }
        let kept = &source.kept;
        let (attributes, is_foreign) = self.context.creator.within_rights(kept.attributes());
        if kept.unread.is_none()
            && metadata::remove_other_xattrs(&file, &kept.xattrs).map_err(wrong)? == Others::Unlisted
        {
            self.context.report_unlisted(&self.place().join(target_name));
        }
        self.report_unread(seen.name, kept.unread);
        let mut refused = self.context.creator.apply(&file, &attributes).map_err(wrong)?;
        let later = seen.status.nlink > 1;
        if !later {
            refused.fileattr.add(kept.fileattr.seal(&file));
        }
        let shown = || self.context.shown(&self.place().join(target_name));
        self.context.not_kept.refused(&refused, is_foreign, shown);
        Ok(later.then_some(kept.fileattr))
    }
}

/// Counts how a file's content came over.
pub(super) fn count(copied: &Copied, part: &mut Stats) {
    part.cloned_bytes += copied.cloned;
    part.hole_bytes = part.hole_bytes.saturating_add(copied.holes);
    part.read_bytes += copied.read;
    if copied.engine == Engine::Clone {
        part.inline_bytes += copied.data;
    } else {
        part.copied_bytes += copied.data;
    }
    if let Some(reason) = copied.reason.filter(|_| copied.data > 0) {
        *part.reasons.entry(reason).or_default() += copied.data;
    }
    if copied.size() > 0 {
        *part.engines.entry(copied.engine).or_default() += 1;
    }
}
