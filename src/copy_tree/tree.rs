//! The visitor of the walk: receives directories and entries in order.

use super::context::Context;
use super::pair::Pair;
use super::place::Place;
use super::plan::Step;
use super::stats::Stats;
use super::{directory, entries, staging};
use crate::error::{Error, Result};
use crate::monitor::{Amount, Change};
use crate::tree::exclude::mounts;
use crate::tree::walk::{self, Directory, Name, Names, Visitor};
use crate::tree::writer::{Failure, Target as _};
use crate::util::mutex::{self, lock};
use std::io;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Copies the sources of a step.
pub(super) fn walk(context: &Context<'_>, step: &Step, threads: usize) -> Result<()> {
    match directory::clear_top(context) {
        Ok(()) => {}
        Err(failure) => return Err(failure.into_error()),
    }
    let tree = Tree { context, step, has_read: AtomicBool::new(false), lost: Mutex::default() };
    walk::walk_tops(step.tops(), &tree, threads, |lines| {
        for (change, path) in lines {
            context.monitor.planned(change, &context.shown(&path));
        }
        Ok(())
    })?;
    let mut lost = mutex::into_inner(tree.lost).into_iter();
    if !tree.has_read.into_inner()
        && let Some(first) = lost.next()
    {
        return Err(first);
    }
    lost.for_each(|error| context.report(&error));
    Ok(())
}

struct Tree<'a> {
    context: &'a Context<'a>,
    step: &'a Step,
    /// Whether there was any entry in a source, or a source that is an entry itself.
    has_read: AtomicBool,
    /// Sources that vanished, and directories that were replaced while they were read.
    lost: Mutex<Vec<Error>>,
}

/// Lines of the plan, with paths relative to the top.
type Output = Vec<(Change, Vec<u8>)>;

impl Tree<'_> {
    fn skip(&self, failure: Failure) -> Result<()> {
        failure.skipped().map(|error| self.context.report(&error))
    }

    fn lines(&self, lines: impl IntoIterator<Item = (Change, Vec<u8>)>) -> Output {
        if self.context.options.dry_run { lines.into_iter().collect() } else { Vec::new() }
    }

    fn count_directory(&self, change: Option<Change>) {
        let copied_entries = u64::from(change == Some(Change::Added));
        self.context.count(&Stats { dirs: 1, copied_entries, ..Stats::default() });
        self.context.monitor.advance(Amount { files: 1, bytes: 0 });
    }
}

impl Visitor for Tree<'_> {
    type Place = Place;
    type Output = Output;

    fn enter(&self, directory: &Directory<()>, parent: Option<&Directory<Place>>) -> Result<Option<(Place, Output)>> {
        self.context.check()?;
        match directory::enter(self.context, self.step, directory, parent) {
            Ok((place, change)) => {
                if !directory.scaffold {
                    self.count_directory(change);
                }
                if parent.is_some() {
                    self.has_read.store(true, Ordering::Relaxed);
                }
                let lines = self.lines(change.map(|change| (change, place.path.clone())));
                Ok(Some((place, lines)))
            }
            Err(failure) => self.skip(failure).map(|()| None),
        }
    }

    fn list(&self, directory: &Directory<()>, place: &Place) -> (Names, Option<io::Error>) {
        place.take_names().unwrap_or_else(|| staging::list(directory))
    }

    fn approach(&self, parent: &Directory<Place>, path: &[u8]) -> Result<ControlFlow<Option<Output>>> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let stops = self.context.options.one_file_system
            && !parent.scaffold
            && mounts::is_elsewhere(&parent.fd, parent.status.dev, name);
        if !stops {
            return Ok(ControlFlow::Continue(()));
        }
        match directory::mount_point(self.context, parent, name) {
            Ok(change) => {
                self.count_directory(change);
                let path = parent.place.join(parent.place.name(name));
                Ok(ControlFlow::Break(Some(self.lines(change.map(|change| (change, path))))))
            }
            Err(failure) => self.skip(failure).map(|()| ControlFlow::Break(None)),
        }
    }

    fn batch(&self, directory: &Directory<Place>, names: &mut dyn Iterator<Item = Name<'_>>) -> Result<Output> {
        let mut part = Stats::default();
        let result = entries::batch(&Pair { context: self.context, directory }, names, &mut part);
        if part.files + part.others + part.symlinks > 0 {
            self.has_read.store(true, Ordering::Relaxed);
        }
        self.context.count(&part);
        Ok(self.lines(result?.into_iter().map(|(change, name)| (change, directory.place.join(&name)))))
    }

    fn close(&self, path: &[u8], place: &mut Place) {
        place.close(path);
    }

    fn reopen(&self, path: &[u8], place: &mut Place) -> rustix::io::Result<()> {
        place.reopen(|| self.context.reopener(), path)
    }

    fn leave(&self, directory: &Directory<Place>) -> Result<()> {
        directory::leave(self.context, directory).or_else(|failure| self.skip(failure))
    }

    fn incomplete(&self, error: Error) {
        self.context.report(&error);
    }

    fn unfound(&self, error: Error) -> Result<()> {
        self.torn(error)
    }

    fn torn(&self, error: Error) -> Result<()> {
        lock(&self.lost).push(error);
        Ok(())
    }

    fn unreadable(&self, _: Option<&Directory<Place>>, _: &[u8], error: Error) -> Result<Option<Output>> {
        self.context.report(&error);
        Ok(None)
    }
}
