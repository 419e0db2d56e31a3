//! The visitor of the walk: brings directories and their entries from the source into the staging tree.

use super::context::{Context, Target, cannot_make};
use super::place::{self, Last, Place};
use super::record::keep;
use super::seen::{Seen, compare, count, planned_body};
use super::staged::Staged;
use super::stats::Stats;
use crate::beneath;
use crate::error::{Error, Result};
use crate::metadata::Attributes;
use crate::monitor::{Amount, Change};
use crate::mutex::{self, lock};
use crate::snapshot::manifest::{Directory as DirectoryRecord, DirectoryCursor, Entry, Item, Meta};
use crate::status::{Status, Time, timestamps};
use crate::walk::{Directory, Name, Names, Visitor, absolute};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

/// Stands for the inode number of what could not be read as a whole, so that it counts as changed next time.
const UNKNOWN: u64 = 0;

/// What a directory or a batch of entries yields: records, and how each differs from the last snapshot's.
#[derive(Default)]
pub(super) struct Output {
    pub(super) items: Vec<(Item, Option<Change>)>,
}

/// Brings a tree in.
pub(super) struct Tree<'a> {
    context: Context<'a>,
    stats: Mutex<Stats>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(context: Context<'a>) -> Self {
        Tree { context, stats: Mutex::default() }
    }

    pub(super) fn into_stats(self) -> Stats {
        Stats { excluded: self.context.filter.counts(), ..mutex::into_inner(self.stats) }
    }

    /// Where the snapshot is made; nowhere in a dry run.
    pub(super) fn staged(&self) -> Option<&Staged> {
        self.context.staged.as_ref()
    }

    /// After the walk: tells of patterns that matched nothing.
    pub(super) fn tell_unmatched(&self) {
        self.context.filter.tell_unmatched(self.context.monitor);
    }

    fn count(&self, part: &Stats) {
        lock(&self.stats).add(part);
    }

    /// Compares with the last manifest.
    fn look<'n>(
        &self,
        directory: &Directory<Place>,
        name: &'n [u8],
        cursor: &mut Option<DirectoryCursor<'_>>,
    ) -> Result<std::result::Result<Seen<'n>, Errno>> {
        let old = match cursor {
            Some(cursor) => cursor.seek(name)?,
            None => None,
        };
        let status = match Status::at(&directory.fd, name) {
            Ok(status) => status,
            Err(error) => return Ok(Err(error)),
        };
        let change = match (&old, self.context.previous) {
            (Some(old), Some(previous)) => compare(old, &status, previous),
            _ => Some(Change::Added),
        };
        let old = old.filter(|old| change != Some(Change::Type) && old.meta.ino != 0);
        Ok(Ok(Seen { name, status, old, change }))
    }

    /// The directory's copy, open for changes: a new one, or the last snapshot's where the tree began with that.
    fn open_copy(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<Place>>,
        staged: &Staged,
        old: Option<&DirectoryRecord>,
        part: &mut Stats,
    ) -> Result<OwnedFd> {
        let failed = |errno: Errno| cannot_make(&directory.path, errno);
        let Some(parent) = parent else {
            return staged.tree.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause));
        };
        if old.is_some() {
            return beneath::open_dir(staged.tree.as_fd(), &directory.path).map_err(failed);
        }
        let above = place::copy(parent, staged, self.context.monitor, part)?;
        if staged.based {
            // Something else, under this name, that the last snapshot had.
            self.context.take_out(above, &directory.path)?;
        }
        place::make(above, directory.name()).map_err(failed)
    }

    /// The directory's record in the last snapshot, if the staging tree began with that.
    fn old_directory(&self, directory: &Directory<()>) -> Result<Option<DirectoryRecord>> {
        let based = self.context.staged.as_ref().is_some_and(|staged| staged.based);
        match self.context.previous.filter(|_| based) {
            Some(previous) => Ok(previous.reader.directory(&directory.path)?.map(|cursor| cursor.directory().clone())),
            None => Ok(None),
        }
    }

    /// Whether nothing of the directory itself has to be done in a tree that began with its `old` version. The top of the
    /// tree was made private when it began.
    fn is_untouched(&self, directory: &Directory<()>, old: &DirectoryRecord) -> bool {
        let (now, then) = (&directory.status, &old.meta);
        let is_same = (now.mtime, now.ctime, now.ino, now.mode) == (then.mtime, then.ctime, then.ino, then.mode);
        let is_settled = self.context.previous.is_some_and(|previous| then.ctime < previous.reader.header().created);
        is_same && is_settled && old.scaffold == directory.scaffold && !directory.path.is_empty()
    }

    fn change_of_directory(&self, path: &[u8], scaffold: bool, status: &Status) -> Result<Option<Change>> {
        if !self.context.options.dry_run {
            return Ok(None);
        }
        let old = match self.context.previous {
            Some(previous) => previous.reader.directory(path)?.map(|cursor| cursor.directory().meta.clone()),
            None => None,
        };
        Ok(match old {
            None => Some(Change::Added),
            Some(old) if scaffold || old.ctime == status.ctime => None,
            Some(_) => Some(Change::Metadata),
        })
    }

    /// Keeps of a directory that it is there, and nothing that is in it.
    fn keep_empty(&self, parent: &Directory<Place>, path: &[u8], status: &Status) -> Result<Output> {
        let mut part = Stats { dirs: 1, ..Stats::default() };
        let mut meta = Meta { ino: UNKNOWN, ..Meta::of(status, false) };
        if let Some(staged) = &self.context.staged {
            let name = last(path);
            let above = place::copy(parent, staged, self.context.monitor, &mut part)?;
            let failed = |errno| cannot_make(path, errno);
            if staged.based {
                // With all that the last snapshot still saw of it.
                self.context.take_out(above, path)?;
            }
            rustix::fs::mkdirat(above, name, place::PRIVATE).map_err(failed)?;
            keep(&mut meta, staged.creator.apply_at(above, name, &Attributes::of(status, &[])).map_err(failed)?);
        }
        self.count(&part);
        let change = self.change_of_directory(path, false, status)?;
        let record = DirectoryRecord { path: path.to_vec(), scaffold: false, meta };
        Ok(Output { items: vec![(Item::Directory(record), change)] })
    }
}

/// The last component of a path.
fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

impl Visitor for Tree<'_> {
    type Place = Place;
    type Output = Output;

    fn enter(&self, directory: &Directory<()>, parent: Option<&Directory<Place>>) -> Result<Option<(Place, Output)>> {
        let mut part = Stats::default();
        if self.context.is_repository(&directory.status) {
            let error = Error::failed("take a snapshot of the repository itself").at(absolute(&directory.path));
            self.context.problem(&error.hint("it is mounted here a second time; it was left out"), &mut part);
            self.count(&part);
            return Ok(None);
        }
        let old = self.old_directory(directory)?;
        let (place, meta) = match &old {
            Some(old) if self.is_untouched(directory, old) => {
                (Place::untouched(), Meta { dev: directory.status.dev, ..old.meta.clone() })
            }
            _ => self.enter_changed(directory, parent, old.as_ref(), &mut part)?,
        };
        part.dirs = u64::from(!directory.scaffold);
        self.count(&part);
        self.context.monitor.advance(Amount { files: 1, bytes: 0 });
        let change = self.change_of_directory(&directory.path, directory.scaffold, &directory.status)?;
        let record = DirectoryRecord { path: directory.path.clone(), scaffold: directory.scaffold, meta };
        Ok(Some((place, Output { items: vec![(Item::Directory(record), change)] })))
    }

    fn list(&self, directory: &Directory<()>) -> (Names, Option<io::Error>) {
        self.context.filter.list(directory)
    }

    fn approach(&self, parent: &Directory<Place>, path: &[u8]) -> Result<ControlFlow<Option<Output>>> {
        if !self.context.filter.stops_at(parent, path) {
            return Ok(ControlFlow::Continue(()));
        }
        // What is mounted there is not opened, but that it is there is kept: a restored tree has its mount points.
        let status = Status::at(&parent.fd, last(path)).ok().filter(is_directory);
        status.map(|status| self.keep_empty(parent, path, &status)).transpose().map(ControlFlow::Break)
    }

    fn batch(&self, directory: &Directory<Place>, names: &mut dyn Iterator<Item = Name<'_>>) -> Result<Output> {
        let mut part = Stats::default();
        let mut output = Output::default();
        let mut names = names.peekable();
        let mut cursor = match (self.context.previous, names.peek()) {
            (Some(previous), Some(first)) => previous.reader.entries_from(&directory.path, first.bytes)?,
            _ => None,
        };
        while names.peek().is_some() {
            let mut group = Vec::with_capacity(super::file::GROUP);
            for name in names.by_ref().take(super::file::GROUP) {
                match self.look(directory, name.bytes, &mut cursor)? {
                    Ok(seen) if self.context.filter.leaves_out(directory, seen.name, &seen.status) => {}
                    Ok(seen) => group.push(seen),
                    // Deleted since the directory was listed: it is not there.
                    Err(Errno::NOENT) => {}
                    Err(errno) => {
                        let error = Error::io("read the status of", absolute(&directory.join(name.bytes)), errno);
                        self.context.problem(&error, &mut part);
                    }
                }
            }
            if self.context.monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            self.bring(directory, group, &mut output, &mut part)?;
        }
        self.count(&part);
        Ok(output)
    }

    fn leave(&self, directory: &Directory<Place>) -> Result<()> {
        let (Some(staged), Some((copy, last))) = (&self.context.staged, directory.place.changed()) else {
            return Ok(());
        };
        if directory.path.is_empty() && directory.scaffold {
            return leave_top(copy).map_err(|errno| cannot_make(b"", errno));
        }
        let attributes = Attributes::of(&directory.status, &last.xattrs).with(staged.takes(last.fileattr));
        staged.creator.end_directory(copy, &attributes).map_err(|errno| cannot_make(&directory.path, errno))
    }

    fn incomplete(&self, error: Error) {
        self.context.filter.note_unreadable();
        let mut part = Stats::default();
        self.context.problem(&error, &mut part);
        self.count(&part);
    }

    fn unreadable(&self, parent: Option<&Directory<Place>>, path: &[u8], error: Error) -> Result<Option<Output>> {
        let mut part = Stats::default();
        let vanished = error.raw_os_error() == Some(Errno::NOENT.raw_os_error());
        if !vanished {
            self.context.filter.note_unreadable();
            self.context.problem(&error, &mut part);
        }
        self.count(&part);
        let status = parent.and_then(|parent| Status::at(&parent.fd, last(path)).ok());
        let Some((parent, status)) = parent.zip(status).filter(|(_, status)| !vanished && is_directory(status)) else {
            return Ok(None);
        };
        // Its content is out of reach, but not that it is there.
        self.keep_empty(parent, path, &status).map(Some)
    }
}

impl Tree<'_> {
    /// Enters a directory that is new or changed: its part of the snapshot, and its record's metadata.
    fn enter_changed(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<Place>>,
        old: Option<&DirectoryRecord>,
        part: &mut Stats,
    ) -> Result<(Place, Meta)> {
        let errors = part.errors;
        let mut xattrs = place::read_xattrs(directory, self.context.monitor, part);
        let fileattr = self.context.fileattr(directory.fd.as_fd(), directory.status.dev, None);
        let mut meta = Meta::of(&directory.status, !xattrs.is_empty()).with(fileattr);
        if part.errors > errors {
            meta.ino = UNKNOWN;
        }
        let last = Last { xattrs: place::take_handed_down(&mut xattrs), fileattr };
        let Some(staged) = &self.context.staged else { return Ok((Place::untouched(), meta)) };
        let copy = self.open_copy(directory, parent, staged, old, part)?;
        let attributes = Attributes::of(&directory.status, &xattrs);
        let refused = match staged.based {
            true => place::reopen(staged, &copy, &attributes),
            false => staged.creator.begin_directory(&copy, &attributes),
        };
        keep(&mut meta, refused.map_err(|errno| cannot_make(&directory.path, errno))?);
        // A filesystem may refuse them only when they are given, after this record is written.
        meta.kept_xattrs.extend(last.xattrs.iter().map(|(n, v)| (n.clone().into(), v.clone().into())));
        Ok((Place::open(copy, last), meta))
    }

    /// Brings entries in that have been looked at, and adds their records to `output` in their order.
    fn bring(
        &self,
        directory: &Directory<Place>,
        group: Vec<Seen<'_>>,
        output: &mut Output,
        part: &mut Stats,
    ) -> Result<()> {
        let first = output.items.len();
        let Some(staged) = &self.context.staged else {
            for seen in &group {
                count(seen, part);
                let entry = Entry {
                    name: seen.name.to_vec(),
                    meta: Meta::of(&seen.status, false),
                    body: planned_body(&seen.status),
                };
                output.items.push((Item::Entry(entry), seen.change));
            }
            return Ok(());
        };
        let mut entries = Vec::with_capacity(group.len());
        let mut rest = Vec::new();
        for seen in group {
            match self.context.keep(directory, &seen, part) {
                Some(entry) => {
                    count(&seen, part);
                    entries.push((entry, None));
                }
                None => rest.push(seen),
            }
        }
        if !rest.is_empty() {
            self.bring_anew(directory, staged, &rest, &mut entries, part)?;
            entries.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        }
        entries.iter().for_each(|(entry, _)| staged.carry_list(entry));
        output.items.extend(entries.into_iter().map(|(entry, change)| (Item::Entry(entry), change)));
        let files = (output.items.len() - first) as u64;
        self.context.monitor.advance(Amount { files, bytes: 0 });
        Ok(())
    }

    /// Brings in what the staging tree does not have as it is.
    fn bring_anew(
        &self,
        directory: &Directory<Place>,
        staged: &Staged,
        group: &[Seen<'_>],
        entries: &mut Vec<(Entry, Option<Change>)>,
        part: &mut Stats,
    ) -> Result<()> {
        let target = Target::new(&self.context, staged, directory, part)?;
        target.make_room(group)?;
        let files = target.files(group, part)?;
        for (seen, file) in group.iter().zip(files) {
            let entry = match seen.status.file_type() {
                FileType::RegularFile => file,
                FileType::Directory => {
                    let error = Error::failed("take in").at(target.path(seen));
                    self.context
                        .problem(&error.hint("it became a directory while its parent was read; run again"), part);
                    None
                }
                _ => {
                    let made = target.once(seen, || target.node(seen, part))?;
                    made.map(|brought| brought.entry)
                }
            };
            if let Some(entry) = entry {
                count(seen, part);
                entries.push((entry, seen.change));
            }
        }
        Ok(())
    }
}

/// The snapshot's own top is no copy of anything: open to whom the repository lets pass, and as old as the snapshot.
fn leave_top(top: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::fs::fchmod(top, Mode::from_bits_truncate(0o755))?;
    let now = Time::now();
    rustix::fs::futimens(top, &timestamps(now, now))
}

fn is_directory(status: &Status) -> bool {
    status.file_type() == FileType::Directory
}
