//! Hard links: the names of one inode of the sources become names of one inode of the destination, whichever source they
//! stand in.
//!
//! The thread that meets an inode first brings it over; others that meet it meanwhile wait, and then link to it. Whoever
//! waits brings nothing over itself at that time, so nobody waits for a thread that waits. A path for each inode with several
//! names is kept until its last name has come; `inode_map` bounds the memory.

use super::Stats;
use super::TEMPORARY;
use super::context::Context;
use super::decide::Decision;
use super::entries::{Pair, Placed, Seen, Waiting};
use super::outcome::{self, Attempt, Failure};
use super::pending::Pending;
use crate::error::Error;
use crate::fs::metadata::{FileAttr, Refused};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Amount;
use crate::tree::inode_map::{Identity, InodeMap, Spill};
use crate::tree::writer::{Replacing, Temporary, Version};
use crate::util::mutex::lock;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};

/// The inodes with several names that have been met.
#[derive(Debug)]
pub(super) struct Links {
    known: Mutex<Known>,
    settled: Condvar,
}

#[derive(Debug)]
struct Known {
    /// Those that some thread is bringing over.
    begun: HashSet<Identity>,
    made: InodeMap<First>,
}

/// Flags and project id.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Seal {
    flags: Option<u32>,
    project: Option<u32>,
}

/// The name of an inode that was brought over first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct First {
    directory: Vec<u8>,
    name: Vec<u8>,
    /// Its inode in the destination; in a dry run only if it is there already.
    inode: Option<(u64, u64)>,
    missing: u64,
    /// Its data may not be on the disk yet.
    waiting: Option<Waiting>,
    /// What it gets when it has all its names.
    seal: Option<Seal>,
}

impl Links {
    /// None yet. What does not fit into memory goes into a file without a name in this directory.
    pub(super) fn new(dir: Option<OwnedFd>) -> Links {
        let known = Known { begun: HashSet::new(), made: InodeMap::new(Spill::into(dir)) };
        Links { known: Mutex::new(known), settled: Condvar::new() }
    }

    /// The name that was brought over first; `None`: the caller must bring it over, and then [`Links::settle`].
    fn claim(&self, inode: &Identity) -> rustix::io::Result<Option<First>> {
        let mut known = lock(&self.known);
        while known.begun.contains(inode) {
            known = self.settled.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
        let first = known.made.get(inode)?;
        if first.is_none() {
            known.begun.insert(*inode);
        }
        Ok(first)
    }

    /// What became of it; `None`: nothing, and who comes next is the first.
    fn settle(&self, inode: &Identity, first: Option<&First>) -> rustix::io::Result<()> {
        let mut known = lock(&self.known);
        known.begun.remove(inode);
        let kept = first.map_or(Ok(()), |first| known.made.insert(inode, first));
        drop(known);
        self.settled.notify_all();
        kept
    }

    /// One more name has come. The inode, if that was its last.
    fn came(&self, inode: &Identity) -> rustix::io::Result<Option<First>> {
        let mut known = lock(&self.known);
        let Some(mut first) = known.made.get(inode)? else { return Ok(None) };
        first.missing = first.missing.saturating_sub(1);
        if first.missing > 0 {
            return known.made.insert(inode, &first).map(|()| None);
        }
        known.made.remove(inode)
    }

    /// Seals the inodes of which not all names were among the sources.
    pub(super) fn seal_all(&self, context: &Context<'_>) {
        let drained = lock(&self.known).made.drain(|first| first.seal_after_sync(context));
        if let Err(errno) = drained {
            let mut part = Stats::default();
            let error = Error::failed("give inodes with several names their flags").because(errno);
            context.problem(&error, &mut part);
            context.count(&part);
        }
    }
}

impl First {
    /// Gives the inode what comes when it has all its names, after everything else that waits.
    fn seal_after_sync(self, context: &Context<'_>) {
        match self.waiting {
            Some(_) if self.seal.is_some() => context.after_sync(Pending::Seal(self)),
            _ => self.seal(context),
        }
    }

    /// Gives the inode what comes when it has all its names.
    pub(super) fn seal(&self, context: &Context<'_>) {
        let Some(Seal { flags, project }) = self.seal else { return };
        let wanted = FileAttr { flags, project };
        let path = if self.directory.is_empty() {
            self.name.clone()
        } else {
            [&self.directory, &b"/"[..], &self.name].concat()
        };
        let open = || {
            let directory = openat::open_dir(context.plan.top.as_fd(), &self.directory)?;
            let file = openat::open_file(directory.as_fd(), &self.name)?;
            let status = Status::of(&file)?;
            if Some((status.dev, status.ino)) == self.inode { Ok(file) } else { Err(Errno::STALE) }
        };
        match open() {
            Ok(file) => {
                let refused = Refused { fileattr: wanted.seal(file), ..Refused::default() };
                context.not_kept.refused(&refused, false, || context.shown(&path));
            }
            Err(errno) => {
                let error = outcome::target(context, &path, "set the flags of", errno).into_error();
                let mut part = Stats::default();
                context.problem(&error, &mut part);
                context.count(&part);
            }
        }
    }
}

impl Pair<'_> {
    /// Brings a name over of an inode that has several.
    pub(super) fn linked(&self, seen: &Seen<'_>, part: &mut Stats) -> Attempt<()> {
        let links = &self.context.links;
        let inode = Identity::of(&seen.status);
        let lost = |errno| self.wrong(seen.name, "remember the names of", errno);
        let Some(first) = links.claim(&inode).map_err(lost)? else { return self.first(&inode, seen, part) };
        let joined = match self.join(seen, &first) {
            // A run beside this one made that name, too.
            Err(Failure::Meanwhile(_)) if first.inode.is_some() && self.inode_there(seen.name) == first.inode => {
                Ok(true)
            }
            joined => joined,
        };
        let result = match joined {
            Ok(true) => {
                // The content was counted with the first name.
                let is_there = seen.existing.is_some_and(|there| Some((there.dev, there.ino)) == first.inode);
                match seen.status.file_type() {
                    FileType::RegularFile => {
                        part.files += 1;
                        part.unchanged_files += u64::from(is_there);
                    }
                    FileType::Symlink => part.symlinks += 1,
                    _ => part.others += 1,
                }
                part.copied_entries += u64::from(!is_there);
                self.context.monitor.advance(Amount { files: 1, bytes: 0 });
                Ok(())
            }
            // No link can be made: a file of its own.
            Ok(false) => self.apart(seen, part),
            Err(failure) => Err(failure),
        };
        if let Some(first) = links.came(&inode).map_err(lost)? {
            first.seal_after_sync(self.context);
        }
        result
    }

    /// The first name of an inode.
    fn first(&self, inode: &Identity, seen: &Seen<'_>, part: &mut Stats) -> Attempt<()> {
        let links = &self.context.links;
        let lost = |errno| self.wrong(seen.name, "remember the names of", errno);
        let brought = self.alone(seen, part);
        let Placed { seal, waiting } = match brought {
            Ok(placed) => placed,
            Err(failure) => {
                links.settle(inode, None).map_err(lost)?;
                return Err(failure);
            }
        };
        let name = self.target_name(seen.name);
        let is_made = !self.context.options.dry_run;
        let seal = seal.map(|FileAttr { flags, project }| Seal { flags, project });
        let made = match seen.decision {
            _ if waiting.is_some() => waiting.as_ref().map(|waiting| waiting.inode),
            Decision::Leave | Decision::Metadata => seen.existing.map(|there| (there.dev, there.ino)),
            _ if is_made => self.inode_there(seen.name),
            _ => None,
        };
        let missing = seen.status.nlink.saturating_sub(1);
        let directory = self.place().path.clone();
        let first = First { directory, name: name.to_vec(), inode: made, missing, waiting, seal };
        links.settle(inode, Some(&first)).map_err(lost)
    }

    /// A name that cannot join the others.
    fn apart(&self, seen: &Seen<'_>, part: &mut Stats) -> Attempt<()> {
        let shown = || self.context.shown(&self.place().join(self.target_name(seen.name)));
        self.context.not_kept.hard_link(shown);
        self.alone(seen, part).map(|_| ())
    }

    /// Makes the entry a further name of an inode of the destination. `false`: that cannot be.
    fn join(&self, seen: &Seen<'_>, first: &First) -> Attempt<bool> {
        let wrong = |errno| self.wrong(seen.name, "link", errno);
        let there = seen.existing.map(|there| (there.dev, there.ino));
        if there.is_some() && there == first.inode {
            return Ok(true);
        }
        if self.context.options.dry_run {
            return Ok(true);
        }
        let above = self.above()?;
        let from = openat::open_dir(self.context.plan.top.as_fd(), &first.directory);
        let link = |from: &OwnedFd, first: &[u8]| {
            Temporary::make(above, TEMPORARY, |name| rustix::fs::linkat(from, first, above, name, AtFlags::empty()))
        };
        let linked =
            from.and_then(|from| match first.waiting.as_ref().and_then(|waiting| waiting.temporary.as_ref()) {
                // It has one name or the other.
                Some(temporary) => link(&from, temporary).or_else(|_| link(&from, &first.name)),
                None => link(&from, &first.name),
            });
        let temporary = match linked {
            Ok((temporary, ())) => temporary,
            // As many names as the filesystem allows; another filesystem; none that has links; gone meanwhile.
            Err(Errno::MLINK | Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP | Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(wrong(errno)),
        };
        // What has the first name by now may be another inode, and not ours to give further names.
        let inode = Status::at(above, temporary.name()).ok().map(|status| (status.dev, status.ino));
        if inode != first.inode {
            return Ok(false);
        }
        // What is there is another inode, whether it looks the same or not.
        let (place, name) = (self.place(), self.target_name(seen.name));
        match (&place.target, seen.existing.as_ref().map(Version::of)) {
            (Some(target), Some(version)) if first.waiting.is_some() => {
                place.is_pending.store(true, Ordering::Relaxed);
                let replacing = Replacing::new(temporary, target, name, version);
                self.context.after_sync(Pending::Name { replacing, path: place.join(name) });
            }
            (_, version) => temporary.put(name, version.as_ref()).map_err(wrong)?,
        }
        Ok(true)
    }
}
