//! Hard links: the names of one inode in the snapshot become names of one inode in the target. The table of inodes, the
//! link itself and the seal are in `tree::writer`.
//!
//! Unlike a copy, a restore joins names one at a time, in the order of the manifest. So a name that replaces another
//! file syncs the data of the first name itself, and an inode with the most names that the filesystem allows is
//! followed by another one, which the remaining names join.

use super::context::Context;
use super::decide::is_same_node;
use super::options::Overwrite;
use super::origin::Origin;
use super::outcome::{self, Outcome};
use super::place::Place;
use super::stats::Stats;
use super::{content, entry, make, metadata};
use crate::error::{Advice, Error};
use crate::fs::openat;
use crate::fs::reopener::Reopener;
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::manifest::Entry;
use crate::tree::writer::{self, Attempt, Decision, Failure, First, Linked, Seal, Target as _, Waiting};
use crate::util::mutex::lock;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

/// The inodes with several names that the restore has met.
pub(super) struct Links {
    known: writer::Links,
    top: Top,
}

/// The target, to open directories in it. `None` in a dry run if it does not exist yet.
struct Top(Option<Reopener>);

/// The result of a further name.
enum Joined {
    /// It was restored as a name of the inode, or else as a file of its own.
    Restored(Outcome),
    /// It must begin another inode: that one has as many names as the filesystem allows, or other content.
    Separate,
}

impl Links {
    /// Begins without inodes. Inodes that do not fit into memory go into a file without a name in the target.
    pub(super) fn new(target: Option<&OwnedFd>) -> Links {
        let top = Top(target.and_then(|target| Reopener::new(target).ok()));
        let target = target.and_then(|target| rustix::io::fcntl_dupfd_cloexec(target, 0).ok());
        Links { known: writer::Links::new(target), top }
    }

    /// Restores a name of an inode that has several. Names are restored one at a time, in the order of the manifest.
    pub(super) fn restore(&self, context: &Context<'_>, place: &Place, entry: &Entry) -> Attempt<Outcome> {
        let inode = entry.meta.inode();
        let fail = |errno| place.failure(context, &entry.name, "remember the names of", errno);
        let Some(mut known) = self.known.claim(&inode).map_err(fail)? else {
            let restored = entry::restore(context, place, entry);
            let first = restored.as_ref().ok().map(|outcome| first(context, place, entry, outcome));
            self.known.settle(&inode, first.as_ref()).map_err(fail)?;
            return restored;
        };
        let was_trusted = known.is_trusted;
        let joined = join(context, &self.top, place, entry, &mut known);
        if was_trusted && !known.is_trusted {
            self.known.replace(&inode, known.clone()).map_err(fail)?;
        }
        let mut restored = match joined {
            // This name begins another inode, which the other names join.
            Ok(Joined::Separate) => {
                let errors = seal(context, &self.top, &known);
                lock(&context.late).errors += errors;
                let restored = entry::restore(context, place, entry);
                if let Ok(outcome) = &restored {
                    let first = First { missing: known.missing, ..first(context, place, entry, outcome) };
                    self.known.replace(&inode, first).map_err(fail)?;
                }
                restored
            }
            Ok(Joined::Restored(outcome)) => Ok(outcome),
            Err(failure) => Err(failure),
        };
        let last = self.known.came(&inode).map_err(fail)?;
        match (&mut restored, last) {
            (Ok(outcome), Some(last)) => outcome.stats.errors += seal(context, &self.top, &last),
            // Sealed at the end, where a failure counts.
            (Err(_), Some(last)) => self.known.replace(&inode, last).map_err(fail)?,
            _ => {}
        }
        restored
    }

    /// Seals inodes with names that were not asked for. Returns the number that could not be sealed; these were
    /// reported.
    pub(super) fn finish(&self, context: &Context<'_>) -> u64 {
        let mut errors = 0;
        let drained = self.known.drain(|first| errors += seal(context, &self.top, &first));
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
        match place.filter(|place| place.path() == directory).and_then(|place| place.dir.fd.as_ref()) {
            Some(target) => Ok(Arc::clone(target)),
            None => self.0.as_ref().ok_or(Errno::BADF)?.open_any(directory).map(Arc::new),
        }
    }
}

/// The name that an entry just got, as the first of its inode.
fn first(context: &Context<'_>, place: &Place, entry: &Entry, outcome: &Outcome) -> First {
    let is_made = outcome.change.is_some() && !context.options.dry_run && entry.file().is_some();
    let is_sealed = outcome.change == Some(Change::Metadata) || place.dir.seal_of(entry.meta.fileattr()).is_some();
    let waiting = outcome.inode.filter(|_| outcome.is_waiting);
    First {
        directory: place.path(),
        name: entry.name.clone(),
        inode: outcome.inode,
        missing: entry.meta.nlink.saturating_sub(1),
        waiting: waiting.map(|inode| Waiting { inode, temporary: None }),
        seal: (is_made && is_sealed).then(|| Seal::of(entry.meta.fileattr())),
        is_trusted: match context.options.overwrite {
            Overwrite::Never => outcome.change.is_none() && outcome.inode.is_some(),
            _ => outcome.stats.unchanged_files > 0 && entry.file().is_some_and(|file| file.size > 0),
        },
    }
}

/// Seals an inode that has all its names. Returns the number of failures, which were reported.
fn seal(context: &Context<'_>, top: &Top, first: &First) -> u64 {
    match first.seal(|directory| top.open(directory, None)) {
        Ok(refused) => outcome::report_seal(context, refused, || context.shown(&first.path())),
        Err(errno) => {
            context.monitor.problem(&context.failure(&first.path(), "set the metadata of", errno).into_error());
            1
        }
    }
}

/// Makes the entry a further name of an inode.
fn join(context: &Context<'_>, top: &Top, place: &Place, entry: &Entry, first: &mut First) -> Attempt<Joined> {
    let fail = |errno| place.failure(context, &entry.name, "link", errno);
    let existing = place.dir.existing(&entry.name).map_err(fail)?;
    if existing.is_some() {
        place.slot(context, &entry.name).refuse_another()?;
    }
    let is_joined = existing.is_some() && existing.as_ref().map(|status| (status.dev, status.ino)) == first.inode;
    let is_directory = existing.as_ref().is_some_and(|status| status.file_type() == FileType::Directory);
    let existing = existing.as_ref();
    let decision = match existing {
        None => Decision::Make,
        Some(_) if is_joined || context.options.overwrite == Overwrite::Never => Decision::Leave,
        Some(_) if is_directory && context.options.delete => Decision::Clear,
        Some(_) if is_directory => return entry::restore(context, place, entry).map(Joined::Restored),
        Some(_) => Decision::Replace(Change::Content),
    };
    // The content was counted with the first name.
    let mut stats = Stats { bytes: 0, ..outcome::count(entry) };
    if decision == Decision::Leave && stats.files == 1 {
        stats.unchanged_files = 1;
    }
    if decision != Decision::Leave && first.is_trusted {
        if !is_wanted(context, top, place, entry, first).map_err(fail)?
            || !has_content(context, top, place, entry, first, &mut stats)?
        {
            return Ok(Joined::Separate);
        }
        first.is_trusted = false;
    }
    let is_waiting = first.waiting.is_some();
    let outcome = Outcome { stats, change: decision.change(), inode: first.inode, is_waiting };
    let target = match &place.dir.fd {
        Some(target) if decision != Decision::Leave => target,
        _ => return Ok(Joined::Restored(outcome)),
    };
    if context.options.dry_run {
        entry::foresee(context, place, entry, decision)?;
        return Ok(Joined::Restored(outcome));
    }
    let from = top.open(&first.directory, Some(place)).map_err(fail)?;
    let slot = place.slot(context, &entry.name);
    let temporary = match slot.link(first, from, &metadata::rights(&entry.meta))? {
        Linked::Made(temporary) => temporary,
        Linked::Refused(Errno::MLINK) => return Ok(Joined::Separate),
        // The first name is gone, belongs to another inode or to somebody else, or another filesystem is mounted here.
        Linked::Another | Linked::Refused(Errno::XDEV | Errno::NOENT | Errno::PERM) => {
            return alone(context, top, place, entry, entry::restore(context, place, entry));
        }
        Linked::Refused(errno) => return Err(fail(errno)),
    };
    let replaces = decision.replaces(existing);
    if is_waiting && replaces.is_some() {
        // The entry that it replaces may be the last good version.
        openat::open_file(target.as_fd(), temporary.name()).and_then(rustix::fs::fsync).map_err(fail)?;
    }
    let put = || slot.put(temporary, replaces.as_ref());
    match make::put(context, place, entry, (decision, existing), put) {
        // Another run at the same time made that name, too.
        Err(Failure::Meanwhile(_)) if decision == Decision::Make => match slot.is_name_of(first) {
            true => Ok(Joined::Restored(outcome)),
            // It had replaced the first name before.
            false => alone(context, top, place, entry, entry::restore_existing(context, place, entry)),
        },
        put => put.map(|()| Joined::Restored(outcome)),
    }
}

/// The result of a name that became a file of its own. No other name follows, so it is sealed here.
fn alone(
    context: &Context<'_>,
    top: &Top,
    place: &Place,
    entry: &Entry,
    restored: Attempt<Outcome>,
) -> Attempt<Joined> {
    let mut outcome = restored?;
    outcome.stats.errors += seal(context, top, &first(context, place, entry, &outcome));
    Ok(Joined::Restored(outcome))
}

/// Whether an inode that was there already, and that nobody has compared, is of the right type and owner, and has the
/// right permissions. All others were compared, or got them.
fn is_wanted(
    context: &Context<'_>,
    top: &Top,
    place: &Place,
    entry: &Entry,
    first: &First,
) -> rustix::io::Result<bool> {
    if context.options.overwrite != Overwrite::Never {
        return Ok(true);
    }
    let directory = top.open(&first.directory, Some(place))?;
    let status = match Status::at(&directory, &first.name) {
        Ok(status) if first.inode == Some((status.dev, status.ino)) => status,
        Ok(_) | Err(Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(errno),
    };
    let rights = metadata::rights(&entry.meta);
    let is_owner = (status.uid, status.gid) == (rights.uid, rights.gid) || !context.creator.is_root();
    Ok(status.mode == rights.mode && is_owner && is_same_node(&entry.body, &directory, &first.name, &status)?)
}

/// Whether an inode that was there already has the content of the snapshot, and not only its size and time. If it does
/// not, and may be replaced, that is reported: its name was counted as unchanged.
fn has_content(
    context: &Context<'_>,
    top: &Top,
    place: &Place,
    entry: &Entry,
    first: &First,
    stats: &mut Stats,
) -> Attempt<bool> {
    let Some(body) = entry.file() else { return Ok(true) };
    let opened = top.open(&first.directory, Some(place)).and_then(|directory| first.open(directory));
    let compared =
        opened.and_then(|file| content::matches(context, file.as_fd(), body, &mut Origin::new(place, entry), stats));
    match compared {
        Err(Errno::CANCELED) => Err(Failure::Fatal(Error::interrupted())),
        Ok(false) if context.options.overwrite != Overwrite::Never => {
            let error = Error::failed("keep").at(context.shown(&first.path()));
            let hint = "it has the size and the time of the snapshot's file, but other content";
            context.monitor.problem(&error.hint(hint).advise(Advice::VerifyExisting));
            lock(&context.late).errors += 1;
            Ok(false)
        }
        // If it cannot be read, nothing is known of its content.
        compared => Ok(compared.unwrap_or(false)),
    }
}
