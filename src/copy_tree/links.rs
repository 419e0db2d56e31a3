//! Hard links: the names of one inode of the sources become names of one inode of the destination, whichever source they
//! stand in.
//!
//! The thread that meets an inode first brings it over; others that meet it meanwhile wait, and then link to it. Whoever
//! waits brings nothing over itself at that time, so nobody waits for a thread that waits. Memory: a path for each inode with
//! several names, until its last name has come.

use super::Stats;
use super::TEMPORARY;
use super::context::Context;
use super::decide::Decision;
use super::entries::{Pair, Seen};
use super::outcome::{self, Attempt, Failure};
use crate::beneath;
use crate::metadata::{FileAttr, Refused};
use crate::monitor::Amount;
use crate::mutex::lock;
use crate::staging::Temporary;
use crate::status::Status;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, PoisonError};

/// An inode of a source.
type Inode = (u64, u64);

/// The inodes with several names that have been met.
#[derive(Debug, Default)]
pub(super) struct Links {
    known: Mutex<HashMap<Inode, Link>>,
    settled: Condvar,
}

#[derive(Debug)]
enum Link {
    /// Some thread is bringing it over.
    Begun,
    Made(First),
}

/// The name of an inode that was brought over first.
#[derive(Clone, Debug)]
struct First {
    directory: Vec<u8>,
    name: Vec<u8>,
    /// Its inode in the destination; in a dry run only if it is there already.
    inode: Option<Inode>,
    missing: u64,
    /// What it gets when it has all its names.
    seal: Option<FileAttr>,
}

impl Links {
    /// The name that was brought over first; `None`: the caller is to bring it over, and then to [`Links::settle`].
    fn claim(&self, inode: Inode) -> Option<First> {
        let mut known = lock(&self.known);
        loop {
            match known.get(&inode) {
                None => {
                    known.insert(inode, Link::Begun);
                    return None;
                }
                Some(Link::Made(first)) => return Some(first.clone()),
                Some(Link::Begun) => {
                    known = self.settled.wait(known).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// What became of it; `None`: nothing, and who comes next is the first.
    fn settle(&self, inode: Inode, first: Option<First>) {
        let mut known = lock(&self.known);
        match first {
            Some(first) => known.insert(inode, Link::Made(first)),
            None => known.remove(&inode),
        };
        drop(known);
        self.settled.notify_all();
    }

    /// One more name has come. The inode, if that was its last.
    fn came(&self, inode: Inode) -> Option<First> {
        let mut known = lock(&self.known);
        let Some(Link::Made(first)) = known.get_mut(&inode) else { return None };
        first.missing = first.missing.saturating_sub(1);
        if first.missing > 0 {
            return None;
        }
        match known.remove(&inode) {
            Some(Link::Made(first)) => Some(first),
            _ => None,
        }
    }

    /// Seals the inodes of which not all names were among the sources.
    pub(super) fn seal_all(&self, context: &Context<'_>) {
        for (_, link) in lock(&self.known).drain() {
            if let Link::Made(first) = link {
                first.seal(context);
            }
        }
    }
}

impl First {
    /// Gives the inode what comes when it has all its names.
    fn seal(&self, context: &Context<'_>) {
        let Some(wanted) = self.seal else { return };
        let path = if self.directory.is_empty() {
            self.name.clone()
        } else {
            [&self.directory, &b"/"[..], &self.name].concat()
        };
        let open = || {
            let directory = beneath::open_dir(context.plan.top.as_fd(), &self.directory)?;
            let file = beneath::open_file(directory.as_fd(), &self.name)?;
            let status = Status::of(&file)?;
            if Some((status.dev, status.ino)) == self.inode { Ok(file) } else { Err(Errno::STALE) }
        };
        match open() {
            Ok(file) => {
                let refused = Refused { fileattr: wanted.seal(file), ..Refused::default() };
                context.not_kept.refused(&refused, false, || context.shown(&path));
            }
            Err(errno) => {
                let (Failure::Entry(error) | Failure::Fatal(error)) =
                    outcome::target(context, &path, "set the flags of", errno);
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
        let Some(first) = links.claim(seen.inode()) else { return self.first(seen, part) };
        let joined = self.join(seen, &first);
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
                self.context.monitor.advance(Amount { files: 1, bytes: 0 });
                Ok(())
            }
            // No link can be made: a file of its own.
            Ok(false) => self.apart(seen, part),
            Err(failure) => Err(failure),
        };
        if let Some(first) = links.came(seen.inode()) {
            first.seal(self.context);
        }
        result
    }

    /// The first name of an inode.
    fn first(&self, seen: &Seen<'_>, part: &mut Stats) -> Attempt<()> {
        let links = &self.context.links;
        let brought = self.alone(seen, part);
        let seal = match brought {
            Ok(seal) => seal,
            Err(failure) => {
                links.settle(seen.inode(), None);
                return Err(failure);
            }
        };
        let name = self.target_name(seen.name);
        let is_made = !self.context.options.dry_run;
        let inode = match (seen.decision, self.target()) {
            (Decision::Leave | Decision::Metadata, _) => seen.existing.map(|there| (there.dev, there.ino)),
            (_, Some(target)) if is_made => Status::at(target, name).ok().map(|status| (status.dev, status.ino)),
            _ => None,
        };
        let missing = seen.status.nlink.saturating_sub(1);
        let first = First { directory: self.place().path.clone(), name: name.to_vec(), inode, missing, seal };
        links.settle(seen.inode(), Some(first));
        Ok(())
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
        let linked = beneath::open_dir(self.context.plan.top.as_fd(), &first.directory).and_then(|from| {
            Temporary::make(above, TEMPORARY, |name| {
                rustix::fs::linkat(&from, first.name.as_slice(), above, name, AtFlags::empty())
            })
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
        temporary.put(self.target_name(seen.name), seen.existing.is_some()).map_err(wrong)?;
        Ok(true)
    }
}
