//! Regular files: made aside with content and metadata, and put in their place if the source is still as it was.
//!
//! A group goes through two steps: open the sources, ask for what is to be read of them, on as many threads as the device's
//! queue likes; then create, fill and finish, on few threads at once. So the reads of a whole group are under way before the
//! first is waited for.

use super::Stats;
use super::TEMPORARY;
use super::entries::{Pair, Seen};
use super::outcome::{Attempt, Failure};
use crate::beneath;
use crate::copy::{self, Copied, CopyError, Engine, Reason};
use crate::error::{Error, Result};
use crate::metadata::{self, Attributes, FileAttr, Xattr};
use crate::positioned;
use crate::staging::Aside;
use crate::status::Status;
use crate::walk::absolute;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// How many files go through the steps together: this many sources are open a thread.
pub(super) const GROUP: usize = 64;

/// Files from this size on are copied on a thread of their own.
pub(super) const LARGE: u64 = 1 << 20;

/// How much is asked for ahead of a group at most.
const AHEAD: u64 = 16 << 20;

/// How often a file that changes while it is copied is copied again.
const ATTEMPTS: usize = 3;

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
                        positioned::prefetch(&source.fd, 0..source.kept.status.size);
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
        self.context.ahead.made(part.files - before.0, part.copied_bytes - before.1);
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

    /// Brings a file over, again if it changes meanwhile. What it is still to be sealed with, if it has other names.
    pub(super) fn file(&self, seen: &Seen<'_>, first: Option<Source>, part: &mut Stats) -> Attempt<Option<FileAttr>> {
        let mut first = first;
        for attempt in 1.. {
            let source = match first.take() {
                Some(source) => source,
                None => match self.open(seen.name)? {
                    Some(source) => source,
                    None => return Ok(None),
                },
            };
            let (aside, copied) = self.fill(seen, &source)?;
            let is_quiet = Status::of(&source.fd).is_ok_and(|now| now.is_untouched_since(&source.kept.status));
            if !is_quiet && attempt < ATTEMPTS {
                part.read_bytes += copied.read;
                continue;
            }
            let seal = self.put(seen, &source.kept, aside)?;
            count(&copied, part);
            let status = Status { size: copied.size(), ..source.kept.status };
            self.done(&Seen { status, ..*seen }, false, part);
            if !is_quiet {
                let error = Error::failed("take a quiet copy of").at(absolute(&self.directory.join(seen.name)));
                let hint = "it changed each time it was read, and the last try was kept; run again when it is quiet";
                self.context.problem(&error.hint(hint), part);
            }
            return Ok(seal);
        }
        Ok(None)
    }

    /// Opens a source and reads what is kept of it besides its content. `None`: it is gone.
    fn open(&self, name: &[u8]) -> Attempt<Option<Source>> {
        let fail = |action, errno| self.unreadable(name, action, errno);
        let fd = match beneath::open_file(self.directory.fd.as_fd(), name) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(fail("open", errno)),
        };
        let status = Status::of(&fd).map_err(|errno| fail("read the status of", errno))?;
        if status.file_type() != FileType::RegularFile {
            return Err(self.became_something_else(name));
        }
        let xattrs = metadata::xattrs(&fd).map_err(|errno| fail("read the extended attributes of", errno))?;
        let fileattr = self.context.fileattrs.of(&fd, status.dev);
        Ok(Some(Source { fd, kept: Kept { status, xattrs, fileattr } }))
    }

    pub(super) fn became_something_else(&self, name: &[u8]) -> Failure {
        let error = Error::failed("copy").at(absolute(&self.directory.join(name)));
        Failure::Entry(error.hint("it became something else while its directory was read; run again"))
    }

    /// Makes an empty file aside, with what it must have before its first byte.
    pub(super) fn make(&self, seen: &Seen<'_>, kept: &Kept) -> Attempt<Aside<'a>> {
        let aside = Aside::make(self.above()?, TEMPORARY, seen.replaces())
            .map_err(|errno| self.wrong(seen.name, "make", errno))?;
        let attributes = kept.attributes();
        let prepared = match self.place().ground.inherits {
            true => self.context.creator.prepare_inheriting(&aside, &attributes),
            false => self.context.creator.prepare(&aside, &attributes),
        };
        prepared.map_err(|errno| self.wrong(seen.name, "set the metadata of", errno))?;
        Ok(aside)
    }

    /// Makes the file aside, with the content of the source as it is now.
    fn fill(&self, seen: &Seen<'_>, source: &Source) -> Attempt<(Aside<'_>, Copied)> {
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
        let error = error.hint(format!("{reason}; without --engine it would be copied"));
        match reason {
            Reason::OtherFilesystem | Reason::NoReflink => Failure::Fatal(error),
            _ => Failure::Entry(error),
        }
    }

    /// Gives a finished file its metadata and its name.
    pub(super) fn put(&self, seen: &Seen<'_>, kept: &Kept, aside: Aside<'_>) -> Attempt<Option<FileAttr>> {
        let context = self.context;
        let wrong = |action, errno| self.wrong(seen.name, action, errno);
        let shown = || context.shown(&self.place().join(self.target_name(seen.name)));
        let (attributes, is_foreign) = context.creator.within_rights(kept.attributes());
        let given = match self.place().fresh {
            true => context.creator.finish(&aside, 0o600, &attributes),
            // A directory with the set-group-id bit, or a mount with `grpid`, gives its own group to what is made in it.
            false => context.creator.apply(&aside, &attributes),
        };
        let mut refused = given.map_err(|errno| wrong("set the metadata of", errno))?;
        let file = aside.put(self.target_name(seen.name)).map_err(|errno| wrong("put in place", errno))?;
        let is_sealed = self.is_sealed(kept.fileattr);
        let later = is_sealed && seen.status.nlink > 1;
        if is_sealed && !later {
            refused.fileattr.add(kept.fileattr.seal(file));
        }
        context.not_kept.refused(&refused, is_foreign, shown);
        Ok(later.then_some(kept.fileattr))
    }

    /// Gives what is there already the metadata of its source.
    pub(super) fn set_metadata(&self, seen: &Seen<'_>) -> Attempt<Option<FileAttr>> {
        let wrong = |errno| self.wrong(seen.name, "set the metadata of", errno);
        let is_same = |status: &Status| seen.existing.is_some_and(|there| status.is_same_inode(&there));
        let target_name = self.target_name(seen.name);
        if seen.status.file_type() != FileType::RegularFile {
            return self.set_metadata_of_node(seen).map(|()| None);
        }
        let Some(source) = self.open(seen.name)? else { return Ok(None) };
        let file = match beneath::open_file(self.above()?, target_name) {
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
        metadata::remove_other_xattrs(&file, &kept.xattrs).map_err(wrong)?;
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
    part.hole_bytes += copied.holes;
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
