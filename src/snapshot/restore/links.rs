//! Hard links: the names of one inode in the snapshot become names of one inode in the target.
//!
//! Memory: a path for each inode with several names, until its last name has come.

use super::decide::{self, Decision};
use super::outcome::{self, Attempt, Failure, Outcome};
use super::place::Place;
use super::selection::join as join_path;
use super::{Context, Overwrite, Stats, make, seal};
use crate::beneath;
use crate::metadata::FileAttr;
use crate::monitor::Change;
use crate::snapshot::manifest::Entry;
use crate::staging::Temporary;
use crate::status::Status;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

/// The inodes with several names that have been met.
#[derive(Default)]
pub(super) struct Links {
    known: HashMap<(u64, u64), First>,
}

/// The name of an inode that was restored first.
struct First {
    directory: Vec<u8>,
    name: Vec<u8>,
    /// Its inode in the target; in a dry run only if it is there already.
    inode: Option<(u64, u64)>,
    missing: u64,
    /// What it gets when it has all its names.
    seal: Option<FileAttr>,
}

impl Links {
    /// Restores a name of an inode that has several. Names come one at a time, in the order of the manifest.
    pub(super) fn restore(
        &mut self,
        context: &Context<'_>,
        top: Option<&OwnedFd>,
        place: &Place,
        entry: &Entry,
    ) -> Attempt<Outcome> {
        let key = (entry.meta.dev, entry.meta.ino);
        let Some(first) = self.known.get_mut(&key) else {
            let outcome = make::entry(context, place, entry)?;
            let first = First::new(context, place, entry, &outcome);
            self.known.insert(key, first);
            return Ok(outcome);
        };
        first.missing = first.missing.saturating_sub(1);
        let mut outcome = match join(context, top, place, entry, first) {
            // It has as many names as the filesystem allows: this one begins another inode, which the others join.
            Err(Refusal::Full) => {
                let errors = first.seal(context, top);
                let mut outcome = make::entry(context, place, entry)?;
                outcome.stats.errors += errors;
                *first = First { missing: first.missing, ..First::new(context, place, entry, &outcome) };
                Ok(outcome)
            }
            Err(Refusal::Failed(failure)) => Err(failure),
            Ok(outcome) => Ok(outcome),
        };
        if first.missing == 0
            && let Some(first) = self.known.remove(&key)
            && let Ok(outcome) = &mut outcome
        {
            outcome.stats.errors += first.seal(context, top);
        }
        outcome
    }

    /// Seals the inodes of which not all names were asked for. How many could not be, and were told.
    pub(super) fn finish(&mut self, context: &Context<'_>, top: Option<&OwnedFd>) -> u64 {
        self.known.drain().map(|(_, first)| first.seal(context, top)).sum()
    }
}

impl First {
    /// The name that an entry just got.
    fn new(context: &Context<'_>, place: &Place, entry: &Entry, outcome: &Outcome) -> First {
        let is_made = outcome.change.is_some() && !context.options.dry_run && entry.file().is_some();
        let is_wanted = outcome.change == Some(Change::Metadata) || seal::is_wanted(place, entry);
        First {
            directory: place.path.clone(),
            name: entry.name.clone(),
            inode: outcome.inode,
            missing: entry.meta.nlink.saturating_sub(1),
            seal: (is_made && is_wanted).then(|| entry.meta.fileattr()),
        }
    }

    /// Gives the inode what comes when it has all its names. How much of that failed, and was told.
    fn seal(&self, context: &Context<'_>, top: Option<&OwnedFd>) -> u64 {
        let (Some(top), Some(wanted)) = (top, self.seal) else { return 0 };
        let shown = context.shown(&join_path(&self.directory, &self.name));
        let open = || {
            let file = beneath::open_file(beneath::open_dir(top.as_fd(), &self.directory)?.as_fd(), &self.name)?;
            let status = Status::of(&file)?;
            if Some((status.dev, status.ino)) == self.inode { Ok(file) } else { Err(Errno::STALE) }
        };
        match open() {
            Ok(file) => seal::file(context, file, wanted, &shown),
            Err(errno) => {
                let (Failure::Entry(error) | Failure::Fatal(error)) =
                    outcome::failure_at(&shown, "set the metadata of", errno);
                context.monitor.problem(&error);
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

/// Makes the entry a further name of an inode.
fn join(
    context: &Context<'_>,
    top: Option<&OwnedFd>,
    place: &Place,
    entry: &Entry,
    first: &First,
) -> Result<Outcome, Refusal> {
    let fail = |errno| outcome::failure(context, place, entry, "link", errno);
    let existing = decide::existing(place, &entry.name).map_err(fail)?;
    let is_joined = existing.is_some() && existing.as_ref().map(|status| (status.dev, status.ino)) == first.inode;
    let is_directory = existing.as_ref().is_some_and(|status| status.file_type() == rustix::fs::FileType::Directory);
    let decision = match existing {
        None => Decision::Make,
        Some(_) if is_joined || context.options.overwrite == Overwrite::Never => Decision::Leave,
        Some(_) if is_directory && context.options.delete => Decision::Clear,
        Some(_) if is_directory => return Ok(make::entry(context, place, entry)?),
        Some(_) => Decision::Replace(Change::Content),
    };
    // The content was counted with the first name.
    let mut stats = Stats { bytes: 0, ..outcome::count(entry) };
    if decision == Decision::Leave && stats.files == 1 {
        stats.unchanged_files = 1;
    }
    let outcome = Outcome { stats, change: decision.change(), inode: first.inode };
    let (Some(top), Some(target)) = (top, &place.target) else { return Ok(outcome) };
    if decision == Decision::Leave || context.options.dry_run {
        return Ok(outcome);
    }
    let from = beneath::open_dir(top.as_fd(), &first.directory).map_err(fail)?;
    let linked = Temporary::make(target.as_fd(), make::TEMPORARY, |name| {
        rustix::fs::linkat(&from, first.name.as_slice(), target, name, AtFlags::empty())
    });
    match linked {
        Ok((temporary, ())) => {
            // What has the first name by now may be another inode, and not ours to give further names.
            let inode = Status::at(target, temporary.name()).ok().map(|status| (status.dev, status.ino));
            if inode != first.inode {
                return Ok(make::entry(context, place, entry)?);
            }
            make::put(context, place, target.as_fd(), entry, decision, || {
                temporary.put(&entry.name, decision.replaces())
            })?;
            Ok(outcome)
        }
        Err(Errno::MLINK) => Err(Refusal::Full),
        // Another filesystem is mounted here, or its first name is gone: a file of its own.
        Err(Errno::XDEV | Errno::NOENT | Errno::PERM) => {
            let mut outcome = make::entry(context, place, entry)?;
            outcome.stats.errors += First::new(context, place, entry, &outcome).seal(context, Some(top));
            Ok(outcome)
        }
        Err(errno) => Err(fail(errno).into()),
    }
}
