//! The entries of one directory, a batch at a time: looked at, decided on, and brought over.
//!
//! They are taken in the order of their inodes and not of their names, for that is commonly the order in which they lie on
//! the disk. Small files go through the steps of `file` in groups, larger ones side by side, each on a thread of its own, what has
//! several names or is no file one by one.

use super::context::Context;
use super::decide::{self, Decision};
use super::directory::Place;
use super::outcome::{self, Attempt, Failure};
use super::{Stats, file};
use crate::error::{Error, Result};
use crate::fs::metadata::FileAttr;
use crate::fs::shutdown;
use crate::fs::status::Status;
use crate::monitor::{Amount, Change};
use crate::tree::walk::{self, Directory, Name, absolute};
use crate::tree::writer::{self, Version};
use crate::util::parallel;
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A directory of the source, and where its entries are brought to.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) directory: &'a Directory<Place>,
}

/// An entry that has been looked at.
pub(super) struct Seen<'n> {
    pub(super) name: &'n [u8],
    pub(super) status: Status,
    /// What has its name in the destination.
    pub(super) existing: Option<Status>,
    pub(super) decision: Decision,
}

impl Seen<'_> {
    fn is_file(&self) -> bool {
        self.status.file_type() == FileType::RegularFile
    }

    /// What is there and may be replaced.
    pub(super) fn replaces(&self) -> Option<Version> {
        match self.decision {
            Decision::Replace(_) => self.existing.as_ref().map(Version::of),
            _ => None,
        }
    }
}

/// What is left to do for an entry that has been brought over, if it has other names.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// What the inode gets when it has all its names.
    pub(super) seal: Option<FileAttr>,
    /// Its data may not be on the disk yet.
    pub(super) waiting: Option<Waiting>,
}

/// An inode whose data may not be on the disk yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub(super) inode: (u64, u64),
    /// The name that it has until then, if it replaces something.
    pub(super) temporary: Option<Vec<u8>>,
}

/// A line of the plan: an entry's name in the destination.
pub(super) type Line = (Change, Vec<u8>);

impl<'a> Pair<'a> {
    pub(super) fn place(&self) -> &'a Place {
        &self.directory.place
    }

    pub(super) fn target(&self) -> Option<&'a OwnedFd> {
        self.place().target.as_deref()
    }

    /// The destination's directory, for what is made in it.
    pub(super) fn above(&self) -> Attempt<BorrowedFd<'a>> {
        self.target().map(AsFd::as_fd).ok_or_else(|| self.wrong(b"", "make an entry in", Errno::BADF))
    }

    /// Fails if the entry that is found under a name of the destination is wanted under another one.
    fn refuse_another(&self, target_name: &[u8]) -> Attempt<()> {
        self.place().refuse_another(self.context, target_name, self.context.wanted(self.directory))
    }

    /// What an entry is called in the destination.
    pub(super) fn target_name<'n>(&self, name: &'n [u8]) -> &'n [u8]
    where
        'a: 'n,
    {
        self.place().name(name)
    }

    /// A call on an entry of the source failed.
    pub(super) fn unreadable(&self, name: &[u8], action: &str, errno: Errno) -> Failure {
        match outcome::source(&self.directory.join(name), action, errno) {
            Failure::Entry(error) if shutdown::is_suspected(errno) && shutdown::is_unreadable(&self.directory.fd) => {
                Failure::Fatal(error.hint("the filesystem of the source has failed: see dmesg(1)"))
            }
            failure => failure,
        }
    }

    /// A call on an entry of the destination failed.
    pub(super) fn wrong(&self, name: &[u8], action: &str, errno: Errno) -> Failure {
        if errno == Errno::EXIST
            && let Err(failure) = self.refuse_another(self.target_name(name))
        {
            return failure;
        }
        outcome::target(self.context, &self.place().join(self.target_name(name)), action, errno)
    }

    /// Tells of a failure; the run ends where every other entry would meet the same.
    pub(super) fn tell(&self, failure: Failure, part: &mut Stats) -> Result<()> {
        match failure {
            Failure::Fatal(error) => Err(error),
            Failure::Entry(error) | Failure::Meanwhile(error) => {
                self.context.problem(&error, part);
                Ok(())
            }
        }
    }

    /// Brings a batch of entries over. In a dry run the lines of the plan, in the order of the names.
    pub(super) fn batch(&self, names: &mut dyn Iterator<Item = Name<'_>>, part: &mut Stats) -> Result<Vec<Line>> {
        let mut seen = Vec::new();
        for name in names {
            match self.look(name.bytes, !self.place().fresh) {
                Ok(Some(entry)) => seen.push(entry),
                Ok(None) => {}
                Err(failure) => self.tell(failure, part)?,
            }
        }
        let mut lines = Vec::new();
        if self.context.options.dry_run {
            let planned = seen.iter().filter_map(|seen| Some((seen.decision.change()?, seen.name)));
            lines.extend(planned.map(|(change, name)| (change, self.target_name(name).to_vec())));
        }
        seen.sort_unstable_by_key(|seen| seen.status.ino);
        let is_new = |seen: &Seen<'_>| {
            let is_made = matches!(seen.decision, Decision::Make | Decision::Replace(_));
            is_made && seen.is_file() && seen.status.nlink == 1 && !self.context.options.dry_run
        };
        let (files, rest): (Vec<_>, Vec<_>) = seen.into_iter().partition(is_new);
        let (large, small): (Vec<_>, Vec<_>) = files.into_iter().partition(|seen| seen.status.size >= file::LARGE);
        for group in small.chunks(walk::group(self.context.group)) {
            self.stop_if_asked()?;
            self.files(group, part)?;
        }
        let results = parallel::each(self.context.side_by_side(), large, |seen| self.large(&seen));
        // All of them are counted, whether one ended the run or not.
        let mut ended = Ok(());
        for result in results {
            match result {
                Ok(copied) => part.add(&copied),
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        ended?;
        for seen in &rest {
            self.stop_if_asked()?;
            self.single(seen, part)?;
        }
        Ok(lines)
    }

    fn stop_if_asked(&self) -> Result<()> {
        self.context.check()
    }

    /// `None`: it is gone since its directory was listed. Without `may_exist` nothing can have its name in the destination.
    fn look<'n>(&self, name: &'n [u8], may_exist: bool) -> Attempt<Option<Seen<'n>>> {
        let status = match Status::at(&self.directory.fd, name) {
            Ok(status) => status,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.unreadable(name, "read the status of", errno)),
        };
        let place = self.place();
        let target_name = place.name(name);
        let existing = match place.target.as_ref().filter(|_| may_exist) {
            None => None,
            Some(target) => match Status::at(target, target_name) {
                Ok(status) => {
                    self.refuse_another(target_name)?;
                    Some(status)
                }
                Err(Errno::NOENT) => None,
                Err(errno) => return Err(self.wrong(name, "look at", errno)),
            },
        };
        match decide::decide(self, (name, &status), (target_name, existing.as_ref())) {
            Ok(decision) => Ok(Some(Seen { name, status, existing, decision })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::CANCELED) => Err(Failure::Fatal(Error::interrupted())),
            Err(errno) => Err(self.wrong(name, "compare its source with", errno)),
        }
    }

    /// A large file, when its turn has come.
    fn large(&self, seen: &Seen<'_>) -> Result<Stats> {
        let mut part = Stats::default();
        self.stop_if_asked()?;
        if let Err(failure) = self.context.large.with(|| self.file(seen, None, &mut part)) {
            self.tell(failure, &mut part)?;
        }
        self.context.writeback.made(part.files, part.copied_bytes);
        Ok(part)
    }

    /// Whatever does not go in groups.
    fn single(&self, seen: &Seen<'_>, part: &mut Stats) -> Result<()> {
        let before = (part.files, part.copied_bytes);
        let brought = match seen.decision {
            Decision::Blocked => Err(self.blocked(seen)),
            _ if seen.status.nlink > 1 && seen.status.file_type() != FileType::Directory => self.linked(seen, part),
            _ => self.alone(seen, part).map(|_| ()),
        };
        self.context.writeback.made(part.files - before.0, part.copied_bytes - before.1);
        brought.or_else(|failure| self.tell(failure, part))
    }

    /// An entry as if it had no other names.
    pub(super) fn alone(&self, seen: &Seen<'_>, part: &mut Stats) -> Attempt<Placed> {
        let brought = self.alone_once(seen, part);
        self.or_again(brought, seen, part)
    }

    /// What became of an entry. If somebody else made it meanwhile, or changed its metadata, it is decided on again: a run beside
    /// this one may be copying it. What has other content is kept then.
    pub(super) fn or_again(&self, brought: Attempt<Placed>, seen: &Seen<'_>, part: &mut Stats) -> Attempt<Placed> {
        let mut brought = brought;
        for _ in 0..file::ATTEMPTS {
            let error = match brought {
                Err(Failure::Meanwhile(error)) if seen.replaces().is_none() => error,
                brought => return brought,
            };
            let Some(again) = self.look(seen.name, true)? else { return Ok(Placed::default()) };
            if matches!(again.decision, Decision::Replace(_) | Decision::Blocked) {
                return Err(Failure::Entry(error));
            }
            brought = self.alone_once(&again, part);
        }
        brought
    }

    /// The inode that has an entry's name now.
    pub(super) fn inode_there(&self, name: &[u8]) -> Option<(u64, u64)> {
        let there = Status::at(self.target()?, self.target_name(name)).ok()?;
        Some((there.dev, there.ino))
    }

    fn alone_once(&self, seen: &Seen<'_>, part: &mut Stats) -> Attempt<Placed> {
        if seen.decision == Decision::Blocked {
            return Err(self.blocked(seen));
        }
        if seen.status.file_type() == FileType::Directory {
            let error = Error::failed("copy").at(absolute(&self.directory.join(seen.name)));
            let hint = "it became a directory while its parent was read; run again";
            return Err(Failure::Entry(error.hint(hint)));
        }
        if self.context.options.dry_run || seen.decision == Decision::Leave {
            let is_there = matches!(seen.decision, Decision::Leave | Decision::Metadata);
            self.done(seen, is_there, part);
            return Ok(Placed::default());
        }
        match (seen.decision, seen.is_file()) {
            (Decision::Metadata, _) => {
                let seal = self.set_metadata(seen)?;
                self.done(seen, true, part);
                Ok(Placed { seal, waiting: None })
            }
            (_, true) => self.file_once(seen, None, part),
            (_, false) => {
                self.node(seen)?;
                self.done(seen, false, part);
                Ok(Placed::default())
            }
        }
    }

    /// Counts an entry that is as it should be. `is_there`: its content was there already.
    pub(super) fn done(&self, seen: &Seen<'_>, is_there: bool, part: &mut Stats) {
        match seen.status.file_type() {
            FileType::RegularFile => {
                part.files += 1;
                part.bytes = part.bytes.saturating_add(seen.status.size);
                part.unchanged_files += u64::from(is_there);
            }
            FileType::Symlink => part.symlinks += 1,
            _ => part.others += 1,
        }
        part.copied_entries += u64::from(!is_there);
        let bytes = if is_there { seen.status.size } else { 0 };
        self.context.monitor.advance(Amount { files: 1, bytes });
    }

    fn blocked(&self, seen: &Seen<'_>) -> Failure {
        let shown = self.context.shown(&self.place().join(self.target_name(seen.name)));
        let error = Error::io("copy over", shown, Errno::ISDIR);
        Failure::Entry(error.hint("a directory is in its place; remove it, or copy to another place"))
    }

    /// Whether a file gets something only when it is in its place.
    pub(super) fn is_sealed(&self, fileattr: FileAttr) -> bool {
        writer::is_sealed(fileattr, self.place().ground.project)
    }
}
