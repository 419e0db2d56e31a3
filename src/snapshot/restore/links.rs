//! Hard links: the names of one inode in the snapshot become names of one inode in the target.
//!
//! A path for each inode with several names is kept until its last name has come; `inode_map` bounds the memory.

use super::decide::{self, Decision};
use super::outcome::{self, Attempt, Failure, Outcome};
use super::place::Place;
use super::selection::join as join_path;
use super::{Context, Overwrite, Stats, entry, make, seal};
use crate::error::Error;
use crate::fs::metadata::FileAttr;
use crate::fs::openat;
use crate::fs::reopener::Reopener;
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::manifest::Entry;
use crate::tree::inode_map::{Identity, InodeMap, Spill};
use crate::tree::writer::Temporary;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// The inodes with several names that have been met.
pub(super) struct Links {
    known: InodeMap<First>,
    top: Top,
}

/// The target, to open directories in it. None in a dry run where there is nothing yet.
struct Top(Option<Reopener>);

/// The name of an inode that was restored first.
#[derive(Serialize, Deserialize)]
struct First {
    directory: Vec<u8>,
    name: Vec<u8>,
    /// Its inode in the target; in a dry run only if it is there already.
    inode: Option<(u64, u64)>,
    missing: u64,
    /// Its data may not be on the disk yet.
    is_waiting: bool,
    /// What it gets when it has all its names.
    seal: Option<Seal>,
}

/// Flags and project id.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Seal {
    flags: Option<u32>,
    project: Option<u32>,
}

impl Links {
    /// None yet. What does not fit into memory goes into a file without a name in the target.
    pub(super) fn new(target: Option<&OwnedFd>) -> Links {
        let top = Top(target.and_then(|target| Reopener::new(target).ok()));
        let target = target.and_then(|target| rustix::io::fcntl_dupfd_cloexec(target, 0).ok());
        Links { known: InodeMap::new(Spill::into(target)), top }
    }

    /// Restores a name of an inode that has several. Names come one at a time, in the order of the manifest.
    pub(super) fn restore(&mut self, context: &Context<'_>, place: &Place, entry: &Entry) -> Attempt<Outcome> {
        let inode = Identity::recorded(&entry.meta);
        let fail = |errno| outcome::failure(context, place, entry, "remember the names of", errno);
        let top = &self.top;
        let Some(mut first) = self.known.get(&inode).map_err(fail)? else {
            let outcome = entry::restore(context, place, entry)?;
            self.known.insert(&inode, &First::new(context, place, entry, &outcome)).map_err(fail)?;
            return Ok(outcome);
        };
        first.missing = first.missing.saturating_sub(1);
        let mut outcome = match join(context, top, place, entry, &first) {
            // It has as many names as the filesystem allows: this one begins another inode, which the others join.
            Err(Refusal::Full) => {
                let errors = first.seal(context, top);
                let mut outcome = entry::restore(context, place, entry)?;
                outcome.stats.errors += errors;
                first = First { missing: first.missing, ..First::new(context, place, entry, &outcome) };
                Ok(outcome)
            }
            Err(Refusal::Failed(failure)) => Err(failure),
            Ok(outcome) => Ok(outcome),
        };
        if first.missing > 0 {
            self.known.insert(&inode, &first).map_err(fail)?;
            return outcome;
        }
        self.known.remove(&inode).map_err(fail)?;
        if let Ok(outcome) = &mut outcome {
            outcome.stats.errors += first.seal(context, top);
        }
        outcome
    }

    /// Seals the inodes some of whose names were not asked for. Counts those that could not be sealed, which were reported.
    pub(super) fn finish(&mut self, context: &Context<'_>) -> u64 {
        let (mut errors, top) = (0, &self.top);
        let drained = self.known.drain(|first| errors += first.seal(context, top));
        if let Err(errno) = drained {
            context.monitor.problem(&Error::failed("give inodes with several names their flags").because(errno));
            errors += 1;
        }
        errors
    }
}

impl Top {
    /// A directory of the target; `place` is one that is open.
    fn open(&self, directory: &[u8], place: Option<&Place>) -> rustix::io::Result<Arc<OwnedFd>> {
        match place.filter(|place| place.path() == directory).and_then(|place| place.target.as_ref()) {
            Some(target) => Ok(Arc::clone(target)),
            None => self.0.as_ref().ok_or(Errno::BADF)?.open_any(directory).map(Arc::new),
        }
    }
}

impl First {
    /// The name that an entry just got.
    fn new(context: &Context<'_>, place: &Place, entry: &Entry, outcome: &Outcome) -> First {
        let is_made = outcome.change.is_some() && !context.options.dry_run && entry.file().is_some();
        let is_wanted = outcome.change == Some(Change::Metadata) || seal::is_wanted(place, entry);
        First {
            directory: place.path(),
            name: entry.name.clone(),
            inode: outcome.inode,
            missing: entry.meta.nlink.saturating_sub(1),
            is_waiting: outcome.is_waiting,
            seal: (is_made && is_wanted).then_some(Seal { flags: entry.meta.flags, project: entry.meta.project }),
        }
    }

    /// Gives the inode what comes when it has all its names. Counts the failures, which were reported.
    fn seal(&self, context: &Context<'_>, top: &Top) -> u64 {
        let Some(Seal { flags, project }) = self.seal else { return 0 };
        let wanted = FileAttr { flags, project };
        let shown = || context.shown(&join_path(&self.directory, &self.name));
        let open = || {
            let file = openat::open_file(top.open(&self.directory, None)?.as_fd(), &self.name)?;
            let status = Status::of(&file)?;
            if Some((status.dev, status.ino)) == self.inode { Ok(file) } else { Err(Errno::STALE) }
        };
        match open() {
            Ok(file) => seal::file(context, file, wanted, shown),
            Err(errno) => {
                let failure = outcome::failure_at(context, &shown(), "set the metadata of", errno);
                context.monitor.problem(&failure.into_error());
                1
            }
        }
    }
}

/// Why an entry did not become a further name.
enum Refusal {
    Full,
    Failed(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal::Failed(failure)
    }
}

/// Whether an entry's name is one of the inode by now.
fn is_there(place: &Place, entry: &Entry, first: &First) -> bool {
    let there = decide::existing(place, &entry.name).ok().flatten();
    there.is_some_and(|there| Some((there.dev, there.ino)) == first.inode)
}

/// Makes the entry a further name of an inode.
fn join(context: &Context<'_>, top: &Top, place: &Place, entry: &Entry, first: &First) -> Result<Outcome, Refusal> {
    let fail = |errno| outcome::failure(context, place, entry, "link", errno);
    let existing = decide::existing(place, &entry.name).map_err(fail)?;
    if existing.is_some() {
        place.refuse_another(context, &entry.name)?;
    }
    let is_joined = existing.is_some() && existing.as_ref().map(|status| (status.dev, status.ino)) == first.inode;
    let is_directory = existing.as_ref().is_some_and(|status| status.file_type() == rustix::fs::FileType::Directory);
    let existing = existing.as_ref();
    let decision = match existing {
        None => Decision::Make,
        Some(_) if is_joined || context.options.overwrite == Overwrite::Never => Decision::Leave,
        Some(_) if is_directory && context.options.delete => Decision::Clear,
        Some(_) if is_directory => return Ok(entry::restore(context, place, entry)?),
        Some(_) => Decision::Replace(Change::Content),
    };
    // The content was counted with the first name.
    let mut stats = Stats { bytes: 0, ..outcome::count(entry) };
    if decision == Decision::Leave && stats.files == 1 {
        stats.unchanged_files = 1;
    }
    let outcome = Outcome { stats, change: decision.change(), inode: first.inode, is_waiting: first.is_waiting };
    let Some(target) = &place.target else { return Ok(outcome) };
    if decision == Decision::Leave {
        return Ok(outcome);
    }
    if context.options.dry_run {
        entry::foresee(context, place, entry, decision)?;
        return Ok(outcome);
    }
    let from = top.open(&first.directory, Some(place)).map_err(fail)?;
    let linked = Temporary::make(target.as_fd(), make::TEMPORARY, |name| {
        rustix::fs::linkat(&*from, first.name.as_slice(), target, name, AtFlags::empty())
    });
    match linked {
        Ok((temporary, ())) => {
            // What has the first name by now may be another inode, and not ours to give further names.
            let inode = Status::at(target, temporary.name()).ok().map(|status| (status.dev, status.ino));
            if inode != first.inode {
                return Ok(entry::restore(context, place, entry)?);
            }
            let replaces = decision.replaces(existing);
            if first.is_waiting && replaces.is_some() {
                // What it replaces may be the last good version.
                openat::open_file(target.as_fd(), temporary.name()).and_then(rustix::fs::fsync).map_err(fail)?;
            }
            let put = make::put(context, place, entry, (decision, existing), || {
                temporary.put(&entry.name, replaces.as_ref())
            });
            match put {
                // A run beside this one made that name, too.
                Err(Failure::Meanwhile(_)) if decision == Decision::Make && is_there(place, entry, first) => {}
                put => put?,
            }
            Ok(outcome)
        }
        Err(Errno::MLINK) => Err(Refusal::Full),
        // Another filesystem is mounted here, or its first name is gone: a file of its own.
        Err(Errno::XDEV | Errno::NOENT | Errno::PERM) => {
            let mut outcome = entry::restore(context, place, entry)?;
            outcome.stats.errors += First::new(context, place, entry, &outcome).seal(context, top);
            Ok(outcome)
        }
        Err(errno) => Err(fail(errno).into()),
    }
}
