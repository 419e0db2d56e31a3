//! The visitor of the walk: brings directories and their entries from the source into the staging tree.

use super::context::{Context, Target};
use super::devices::Relation;
use super::directory::{self, Recorded, last};
use super::emptied;
use super::place::Place;
use super::seen::{Seen, compare, count, planned_body};
use super::staged::Staged;
use super::stats::Stats;
use crate::error::{Error, Result};
use crate::fs::status::Status;
use crate::monitor::{Amount, Change, Event};
use crate::snapshot::manifest::{DirectoryCursor, Entry, Item, LONGEST_PATH, Meta, Origin};
use crate::tree::walk::{self, Directory, Name, Names, Visitor, absolute};
use crate::util::mutex::{self, lock};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::io;
use std::ops::ControlFlow;
use std::sync::Mutex;

/// What a directory or a batch of entries yields: records, and how each differs from the last snapshot's.
#[derive(Default)]
pub(super) struct Output {
    pub(super) items: Vec<(Item, Option<Change>)>,
}

impl Output {
    fn of((record, change): Recorded) -> Output {
        Output { items: vec![(Item::Directory(record), change)] }
    }
}

/// Brings a tree in.
pub(super) struct Tree<'a> {
    context: Context<'a>,
    stats: Mutex<Stats>,
    /// How many files go through the steps together.
    group: usize,
}

impl<'a> Tree<'a> {
    pub(super) fn new(context: Context<'a>) -> Self {
        Tree { context, stats: Mutex::default(), group: walk::group(super::file::GROUP) }
    }

    pub(super) fn into_stats(self) -> Stats {
        Stats { excluded: self.context.filter.counts(), ..mutex::into_inner(self.stats) }
    }

    /// The filesystems that the walk met.
    pub(super) fn origins(&self) -> Vec<Origin> {
        self.context.devices.origins()
    }

    /// Where the snapshot is made; nowhere in a dry run.
    pub(super) fn staged(&self) -> Option<&Staged> {
        self.context.staged.as_ref()
    }

    /// After the walk: tells of patterns that matched nothing.
    pub(super) fn report_unmatched(&self) {
        self.context.filter.report_unmatched(self.context.monitor);
    }

    fn count(&self, part: &Stats) {
        lock(&self.stats).add(part);
    }

    fn keep_empty(&self, parent: &Directory<Place>, path: &[u8], status: &Status) -> Result<Option<Output>> {
        let mut part = Stats::default();
        let recorded = directory::keep_empty(&self.context, parent, path, status, &mut part)?;
        self.count(&part);
        Ok(recorded.map(Output::of))
    }

    /// Compares with the last manifest. `relation` is that of the entry before, which most entries of a directory share.
    fn look<'n>(
        &self,
        directory: &Directory<Place>,
        name: &'n [u8],
        cursor: &mut Option<DirectoryCursor<'_>>,
        relation: &mut Option<Relation>,
    ) -> Result<std::result::Result<Seen<'n>, Errno>> {
        let old = match cursor {
            Some(cursor) => cursor.seek(name)?,
            None => None,
        };
        let status = match Status::at(&directory.fd, name) {
            Ok(status) => status,
            Err(error) => return Ok(Err(error)),
        };
        let change = match &old {
            Some(old) => {
                let devices = &self.context.devices;
                let relation = match relation {
                    Some(relation) if relation.is_of(old.meta.dev, &status) => *relation,
                    _ => *relation.insert(devices.relation(old.meta.dev, status.dev, &directory.fd)),
                };
                compare(old, &status, devices, &relation)
            }
            None => Some(Change::Added),
        };
        let old = old.filter(|old| change != Some(Change::Type) && old.meta.ino != 0);
        Ok(Ok(Seen { name, status, old, change }))
    }
}

impl Visitor for Tree<'_> {
    type Place = Place;
    type Output = Output;

    fn enter(&self, directory: &Directory<()>, parent: Option<&Directory<Place>>) -> Result<Option<(Place, Output)>> {
        let mut part = Stats::default();
        if self.context.is_repository(&directory.status) {
            self.context.monitor.event(Event::RepositorySkipped(&absolute(&directory.path)));
            return Ok(None);
        }
        if directory.path.len() > LONGEST_PATH {
            let error = Error::failed("keep the directory").at(absolute(last(&directory.path)));
            let hint = format!("its path is longer than {} MiB", LONGEST_PATH >> 20);
            self.context.problem(&error.hint(hint), &mut part);
            self.count(&part);
            return Ok(None);
        }
        let Some((place, recorded)) = directory::enter(&self.context, directory, parent, &mut part)? else {
            self.context.filter.note_unreadable();
            self.count(&part);
            return Ok(None);
        };
        self.count(&part);
        self.context.monitor.advance(Amount { files: 1, bytes: 0 });
        Ok(Some((place, Output::of(recorded))))
    }

    fn list(&self, directory: &Directory<()>) -> (Names, Option<io::Error>) {
        let (names, error) = self.context.filter.list(directory);
        if let (Some(previous), None) = (self.context.previous, &error)
            && let Some(vanished) = emptied::vanished_mount(&previous.reader, directory, &names)
        {
            let mut part = Stats::default();
            match self.context.options.allow_empty {
                true => self.context.monitor.event(Event::Accepted(&vanished)),
                false => self.context.problem(&vanished, &mut part),
            }
            self.count(&part);
        }
        (names, error)
    }

    fn approach(&self, parent: &Directory<Place>, path: &[u8]) -> Result<ControlFlow<Option<Output>>> {
        if !self.context.filter.stops_at(parent, path) {
            return Ok(ControlFlow::Continue(()));
        }
        // What is mounted there is not opened, but that it is there is kept: a restored tree has its mount points.
        let status = Status::at(&parent.fd, last(path)).ok().filter(is_directory);
        let output = status.map(|status| self.keep_empty(parent, path, &status)).transpose()?;
        Ok(ControlFlow::Break(output.flatten()))
    }

    fn batch(&self, directory: &Directory<Place>, names: &mut dyn Iterator<Item = Name<'_>>) -> Result<Output> {
        let mut part = Stats::default();
        let mut output = Output::default();
        let mut names = names.peekable();
        let mut relation = None;
        let mut cursor = match (self.context.previous, names.peek()) {
            (Some(previous), Some(first)) => previous.reader.entries_from(&directory.path, first.bytes)?,
            _ => None,
        };
        while names.peek().is_some() {
            let mut group = Vec::with_capacity(self.group);
            for name in names.by_ref().take(self.group) {
                match self.look(directory, name.bytes, &mut cursor, &mut relation)? {
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

    fn close(&self, _: &[u8], place: &mut Place) {
        place.close();
    }

    fn reopen(&self, path: &[u8], place: &mut Place) -> rustix::io::Result<()> {
        match &self.context.staged {
            Some(staged) => place.reopen(&staged.reopener, path),
            None => Ok(()),
        }
    }

    fn leave(&self, directory: &Directory<Place>) -> Result<()> {
        let mut part = Stats::default();
        directory::leave(&self.context, directory, &mut part)?;
        self.count(&part);
        Ok(())
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
        self.keep_empty(parent, path, &status)
    }
}

impl Tree<'_> {
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
            match self.context.keep(directory, &seen, part)? {
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
                    let made = target.once(seen, part, |part| target.node(seen, part))?;
                    made.map(|brought| brought.entry)
                }
            };
            if let Some(mut entry) = entry {
                let is_settled = |old: &Entry| seen.change.is_none() && old.meta.ctime == entry.meta.ctime;
                if !seen.old.as_ref().is_some_and(is_settled) {
                    let (devices, fd) = (&self.context.devices, &directory.fd);
                    entry.meta.recheck |= devices.may_change_unnoticed(&entry.meta, seen.old.as_ref(), fd);
                }
                count(seen, part);
                entries.push((entry, seen.change));
            }
        }
        Ok(())
    }
}

fn is_directory(status: &Status) -> bool {
    status.file_type() == FileType::Directory
}
