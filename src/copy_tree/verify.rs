//! `--verify`: reads both sides of every file again and compares their BLAKE3 hashes, including files that were there
//! already.
//!
//! This happens after the sync. The kernel's cached pages of the copy are dropped first, so that the copy is read from
//! the disk. A source that differs from its copy in size or modification time has changed since it was copied, which is
//! not damage.
//!
//! A wrong copy with the time of its source would look unchanged to the next run. So a wrong copy that this run made
//! gets another time. An older copy stays as it is: perhaps its source was damaged since.

use super::context::{Context, LARGE};
use super::place::Place;
use super::plan::{self, Step};
use super::stats::Stats;
use crate::content::hash;
use crate::content::same_content;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::metadata::set_times;
use crate::fs::openat;
use crate::fs::status::{Status, Time};
use crate::fs::timestamp::may_have_changed_since;
use crate::monitor::Amount;
use crate::tree::walk::{self, Directory, Name, Visitor, absolute};
use crate::tree::writer::{Inherited, Owner, Target as _, Wanted};
use crate::util::mutex::lock;
use crate::util::parallel;
use rustix::fs::{Advice, FileType, fadvise};
use rustix::io::Errno;
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

/// Verifies all sources and their copies.
pub(super) fn walk(context: &Context<'_>, threads: usize) -> Result<()> {
    let marked = Mutex::default();
    let each =
        |step: &Step| walk::walk_tops(step.tops(), &Verify { context, step, marked: &marked }, threads, |()| Ok(()));
    context.plan.steps.iter().try_for_each(each)
}

struct Verify<'a> {
    context: &'a Context<'a>,
    step: &'a Step,
    /// The inodes of wrong copies that got another time. They can have further names.
    marked: &'a Mutex<HashSet<(u64, u64)>>,
}

/// The open directory of a copy.
fn fd(place: &Place) -> rustix::io::Result<BorrowedFd<'_>> {
    place.dir.fd.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
}

/// Whether the copy that is found under a name belongs to another name. The copy for this name was refused and reported
/// then.
fn is_another(place: &Place, name: &[u8], wanted: Wanted<'_>) -> rustix::io::Result<bool> {
    Ok(place.dir.owner(name, wanted)? != Owner::Itself)
}

/// What happens to a wrong copy that this run made.
const MARKED: &str = "it got an old time, so that the next run copies it again";

/// The result of comparing a file.
enum Found {
    /// Both sides are equal.
    Equal,
    /// The sides differ. What to do then.
    Differs(&'static str),
    /// The source or its copy was changed since, or the source no longer exists.
    Changed,
    /// Something else is in the copy's place: the file could not be copied, or its copy was replaced since.
    Missing(&'static str),
}

impl Verify<'_> {
    fn open(&self, directory: &Directory<()>, parent: Option<&Directory<Place>>) -> rustix::io::Result<Place> {
        // Nothing is created, so inherited properties do not matter.
        let new = |fd, path| Place::new(path, Some(fd), &self.context.devices, Inherited::default(), false);
        let top = || new(rustix::io::fcntl_dupfd_cloexec(&self.context.plan.top, 0)?, Vec::new());
        let below = |above: &Place, name: &[u8], wanted: Wanted<'_>| match is_another(above, name, wanted)? {
            true => Err(Errno::EXIST),
            false => new(openat::open_subdir(fd(above)?, name)?, above.join(name)),
        };
        match (parent, self.step.targets.get(directory.top)) {
            (Some(parent), _) => below(&parent.place, parent.place.name(directory.name()), self.context.wanted(parent)),
            (None, Some(plan::Target::Named(name))) => below(&top()?, name, Wanted::These(&self.context.plan.names)),
            (None, Some(plan::Target::Entries(rename))) => Ok(top()?.renaming(rename.as_deref())),
            (None, _) => top(),
        }
    }

    /// Compares an entry with its copy.
    fn entry(&self, directory: &Directory<Place>, name: &[u8], part: &mut Stats) -> rustix::io::Result<Found> {
        let place = &directory.place;
        let target_name = place.name(name);
        let before = Status::at(&directory.fd, name)?;
        let copy = match Status::at(fd(place)?, target_name) {
            Ok(copy) => copy,
            Err(Errno::NOENT) => return Ok(Found::Missing("its copy is missing; run again")),
            Err(errno) => return Err(errno),
        };
        if is_another(place, target_name, self.context.wanted(directory))? {
            return Ok(Found::Equal);
        }
        if copy.file_type() != before.file_type() {
            return Ok(Found::Missing("something of another type is in its place; remove it and run again"));
        }
        if before.file_type() != FileType::RegularFile || copy.is_same_inode(&before) {
            return Ok(Found::Equal);
        }
        if lock(self.marked).contains(&(copy.dev, copy.ino)) {
            return Ok(Found::Differs(MARKED));
        }
        if (copy.size, copy.mtime) != (before.size, before.mtime) {
            return Ok(Found::Changed);
        }
        let copied = copy;
        let source = openat::open_file(directory.fd.as_fd(), name)?;
        let copy = openat::open_file(fd(place)?, target_name)?;
        // This is advice. Data that stays in memory would show little about the disk.
        let _ = fadvise(&copy, 0, None, Advice::DontNeed);
        let (is_equal, read) = self.is_equal(&source, &copy, &before)?;
        part.read_bytes += read;
        part.verified_files += 1;
        self.context.monitor.advance(Amount { files: 1, bytes: before.size });
        // In this order: another thread that marks the inode notes that first.
        let is_untouched = Status::of(&copy)?.is_untouched_since(&copied);
        let is_marked = lock(self.marked).contains(&(copied.dev, copied.ino));
        match Status::of(&source)?.is_untouched_since(&before) {
            false => Ok(Found::Changed),
            true if is_equal => Ok(Found::Equal),
            true if is_marked => Ok(Found::Differs(MARKED)),
            true if !is_untouched => Ok(Found::Changed),
            true if self.mark(&copy, &copied) => Ok(Found::Differs(MARKED)),
            true => Ok(Found::Differs("if the source is right, remove this copy, and copy again")),
        }
    }

    /// Gives a wrong copy another time than that of its source, if this run made it. Returns false if it stays as it
    /// is.
    fn mark(&self, copy: &OwnedFd, status: &Status) -> bool {
        // Each copy is a new inode. The time of its last change says nothing: this run also sets the metadata of older
        // copies.
        let Some(made) = status.btime else { return false };
        let clock = self.context.clocks.of(status.dev, copy);
        if !may_have_changed_since(made, self.context.begun, clock) {
            return false;
        }
        // Before the time changes, because another thread may look at another name of it.
        let inode = (status.dev, status.ino);
        lock(self.marked).insert(inode);
        let other = Time { seconds: i64::from(status.mtime == Time::default()), nanos: 0 };
        // After a power cut it must not look unchanged either.
        let is_marked = set_times(copy, status.atime, other).and_then(|()| rustix::fs::fsync(copy)).is_ok();
        if !is_marked {
            lock(self.marked).remove(&inode);
        }
        is_marked
    }

    /// Whether a file and its copy have the same content, and how many bytes were read. Compares their hashes, or reads
    /// them side by side if the holes are too large to hash.
    fn is_equal(&self, source: &OwnedFd, copy: &OwnedFd, status: &Status) -> rustix::io::Result<(bool, u64)> {
        let monitor = self.context.monitor;
        if !hash::is_hashed(source, status)? {
            let found = same_content::compare(source.as_fd(), copy.as_fd(), status.size, monitor)?;
            return Ok((found.is_equal, found.read));
        }
        let ((wanted, a), (found, b)) =
            (hash::any_file(source, status.size, monitor)?, hash::any_file(copy, status.size, monitor)?);
        Ok((wanted == found, a + b))
    }

    /// Compares an entry with its copy, and reports differences.
    fn compare(&self, directory: &Directory<Place>, name: &[u8]) -> Result<Stats> {
        let mut part = Stats::default();
        if self.context.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        let source = || absolute(&directory.join(name));
        let copy = || self.context.shown(&directory.place.join(directory.place.name(name)));
        match self.entry(directory, name, &mut part) {
            Ok(Found::Equal) => {}
            Err(Errno::NOENT) => directory.note_missing(name),
            Ok(Found::Differs(why)) => {
                part.damaged += 1;
                let error = Error::new(ErrorKind::Damage, "trust the copy").at(copy());
                self.context.monitor.problem(&error.hint(format!("its content is not that of its source; {why}")));
            }
            Ok(Found::Missing(why)) => {
                self.context.problem(&Error::failed("verify the copy of").at(source()).hint(why), &mut part);
            }
            Ok(Found::Changed) => {
                let error = Error::failed("verify the copy of").at(source());
                let hint = "it changed since it was copied; run again when nobody writes to it";
                self.context.problem(&error.hint(hint), &mut part);
            }
            Err(Errno::CANCELED) => return Err(Error::interrupted()),
            // If the source cannot be read, copying it failed and was reported. So this error is normally the copy's.
            Err(errno) => self.context.problem(&Error::io("read back", copy(), errno), &mut part),
        }
        Ok(part)
    }
}

impl Visitor for Verify<'_> {
    type Place = Place;
    type Output = ();

    fn enter(&self, directory: &Directory<()>, parent: Option<&Directory<Place>>) -> Result<Option<(Place, ())>> {
        match self.open(directory, parent) {
            Ok(place) => Ok(Some((place, ()))),
            // It could not be created, which was reported.
            Err(_) => Ok(None),
        }
    }

    fn batch(&self, directory: &Directory<Place>, names: &mut dyn Iterator<Item = Name<'_>>) -> Result<()> {
        let mut part = Stats::default();
        let is_large = |name: &Name<'_>| Status::at(&directory.fd, name.bytes).is_ok_and(|status| status.size >= LARGE);
        let (large, small): (Vec<_>, Vec<_>) = names.partition(is_large);
        let mut add = |found: Result<Stats>| found.map(|found| part.add(&found));
        for name in small {
            add(self.compare(directory, name.bytes))?;
        }
        for found in parallel::each(self.context.side_by_side(), large, |name| self.compare(directory, name.bytes)) {
            add(found)?;
        }
        self.context.count(&part);
        Ok(())
    }

    fn close(&self, path: &[u8], place: &mut Place) {
        place.close(path);
    }

    fn reopen(&self, path: &[u8], place: &mut Place) -> rustix::io::Result<()> {
        place.reopen(|| self.context.reopener(), path)
    }

    fn leave(&self, _: &Directory<Place>) -> Result<()> {
        Ok(())
    }

    fn incomplete(&self, _: Error) {
        // This was reported during the copy.
    }

    fn unfound(&self, error: Error) -> Result<()> {
        self.context.report(&error);
        Ok(())
    }

    fn torn(&self, error: Error) -> Result<()> {
        self.context.report(&error);
        Ok(())
    }

    fn unreadable(&self, _: Option<&Directory<Place>>, _: &[u8], _: Error) -> Result<Option<()>> {
        Ok(None)
    }
}
