//! Walks trees in parallel and delivers the outputs of a visitor in the order of the manifest.
//!
//! See `frontier` for the order and the bound on memory, `directory` for opening a directory, `names` for listing it,
//! `sources` for the paths to walk, `stand_ins` for directories that are read in place of others, `meanwhile` for those
//! that are deleted or replaced while they are read. The walk itself does nothing with the entries it finds: that is
//! the task of the [`Visitor`].

mod directory;
mod frontier;
mod meanwhile;
mod names;
mod path;
mod path_node;
mod sources;
mod stand_ins;
mod visitor;

pub(crate) use directory::Directory;
pub(crate) use names::{Name, Names};
pub(crate) use path::absolute;
pub(crate) use sources::{Sources, Top};
pub(crate) use stand_ins::StandIns;
pub(crate) use visitor::Visitor;

use crate::error::{Error, Result};
use crate::fs::open_files::is_exhausted;
use crate::fs::shutdown;
use crate::fs::status::Status;
use crate::util::mutex::{self, lock};
use crate::util::path::{join, split};
use crate::util::pool::Pool;
use directory::{Missing, Way, open_below, open_top};
use frontier::{Frontier, Task};
use meanwhile::Meanwhile;
pub(crate) use path_node::{Identity, PathNode};
use rustix::io::Errno;
use sources::Node;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Walks `sources` with `threads` threads. `sink` receives the outputs in order, from one thread at a time.
///
/// Memory: the names of the directories that are being visited, and the outputs of a limited number of tasks (see
/// `frontier`).
///
/// # Errors
/// The first error from the visitor or the sink. Errors that do not end the walk are not returned to it.
pub(crate) fn walk<V: Visitor>(
    sources: &Sources,
    visitor: &V,
    threads: usize,
    sink: impl FnMut(V::Output) -> Result<()> + Send,
) -> Result<()> {
    begin(vec![sources.top()], sources.stand_ins(), visitor, threads, sink)
}

/// Like [`walk`], for directories as they are named, side by side. Their outputs arrive one directory after the other.
///
/// # Errors
/// Like [`walk`].
pub(crate) fn walk_tops<V: Visitor>(
    tops: Vec<Top>,
    visitor: &V,
    threads: usize,
    sink: impl FnMut(V::Output) -> Result<()> + Send,
) -> Result<()> {
    begin(tops, &StandIns::default(), visitor, threads, sink)
}

fn begin<V: Visitor>(
    tops: Vec<Top>,
    stand_ins: &StandIns,
    visitor: &V,
    threads: usize,
    sink: impl FnMut(V::Output) -> Result<()> + Send,
) -> Result<()> {
    let walk = Walk {
        visitor,
        stand_ins,
        frontier: Frontier::new(threads),
        sink: Mutex::new(sink),
        failure: Mutex::new(None),
        meanwhile: Meanwhile::new(),
    };
    walk.frontier.begin(tops);
    let pool = Pool::start_named(threads, "walk");
    pool.map_err(|e| Error::failed(format!("start {threads} threads: {e}")))?.on_each(|| walk.work());
    match mutex::into_inner(walk.failure) {
        Some(error) => Err(error),
        None => walk.meanwhile.end(visitor),
    }
}

struct Walk<'a, V: Visitor, S> {
    visitor: &'a V,
    stand_ins: &'a StandIns,
    frontier: Frontier<Open<V::Place>, Closed<V::Place>, V::Output>,
    sink: Mutex<S>,
    failure: Mutex<Option<Error>>,
    meanwhile: Meanwhile,
}

/// An open directory, and its parts that were not started.
struct Open<P> {
    directory: Directory<P>,
    names: Names,
    /// The wanted part of it. `None`: everything.
    only: Option<Arc<Node>>,
    /// The number of batches and subdirectories that were not visited or entered yet.
    pending: AtomicUsize,
}

/// A directory that is closed until its rest is started.
struct Closed<P> {
    node: Arc<PathNode>,
    status: Status,
    scaffold: bool,
    top: usize,
    reopener: Way,
    frozen: bool,
    is_living: bool,
    missing: Missing,
    place: P,
    names: Names,
    only: Option<Arc<Node>>,
    pending: AtomicUsize,
}

/// Stops the walk if its thread panics, for example in a program's monitor: the other threads would wait for its work.
struct StopOnPanic<'a, D, C, O>(&'a Frontier<D, C, O>);

impl<D, C, O> Drop for StopOnPanic<'_, D, C, O> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

impl<V: Visitor, S: FnMut(V::Output) -> Result<()> + Send> Walk<'_, V, S> {
    fn close(&self, open: Open<V::Place>) -> Closed<V::Place> {
        let Open { directory, names, only, pending } = open;
        let Directory { path, status, scaffold, top, node, reopener, frozen, is_living, missing, mut place, .. } =
            directory;
        self.visitor.close(&path, &mut place);
        Closed { node, status, scaffold, top, reopener, frozen, is_living, missing, place, names, only, pending }
    }

    /// Reopens a directory. Reports it if the directory is gone.
    fn reopen(&self, closed: Closed<V::Place>) -> Option<Arc<Open<V::Place>>> {
        let Closed { node, status, scaffold, top, reopener, frozen, is_living, missing, mut place, .. } = closed;
        let (names, only, pending) = (closed.names, closed.only, closed.pending);
        let path = node.path();
        let below = path.get(reopener.1..).unwrap_or_default();
        let below = below.strip_prefix(b"/").unwrap_or(below);
        let opened = reopener.0.open(below, (status.dev, status.ino));
        match opened.and_then(|fd| self.visitor.reopen(&path, &mut place).map(|()| fd)) {
            Ok(fd) => {
                let directory =
                    Directory { fd, path, status, scaffold, top, node, reopener, frozen, is_living, missing, place };
                Some(Arc::new(Open { directory, names, only, pending }))
            }
            Err(errno) => {
                let error = Error::io("open the directory again", absolute(&path), errno);
                if is_exhausted(errno) {
                    self.fail(error);
                    return None;
                }
                let hint = "it was moved while it was read; the rest of it was skipped; run again";
                self.visitor.incomplete(error.hint(hint));
                None
            }
        }
    }

    fn work(&self) {
        let _stop = StopOnPanic(&self.frontier);
        while let Some((slot, task)) = self.frontier.next(|closed| self.reopen(closed)) {
            let result = self.run(slot, task).and_then(|output| self.deliver(slot, output));
            if let Err(error) = result {
                self.fail(error);
            }
        }
    }

    /// Ends the walk.
    fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.frontier.stop();
    }

    fn run(&self, slot: frontier::Slot, task: Task<Open<V::Place>>) -> Result<Vec<V::Output>> {
        match task {
            Task::Top(Top { named, follow, path, node }, number) => {
                let only = (!node.whole).then(|| Arc::new(node));
                let opened = open_top(&named, follow, &path, (only.is_some(), number), self.stand_ins);
                self.directory(slot, (None, Some(named)), (path, opened), only)
            }
            Task::Batch(open, number) => {
                let output = self.batch(&open, number)?;
                self.settle(&open)?;
                Ok(vec![output])
            }
            Task::Directory(parent, number) => {
                let name = parent.names.directory(number);
                let only = parent.only.as_ref().map(|node| node.child(name.bytes));
                let only = only.flatten().filter(|node| !node.whole).cloned();
                let output = self.subdirectory(slot, &parent, name.bytes, only);
                self.settle(&parent)?;
                output
            }
        }
    }

    fn subdirectory(
        &self,
        slot: frontier::Slot,
        parent: &Open<V::Place>,
        name: &[u8],
        only: Option<Arc<Node>>,
    ) -> Result<Vec<V::Output>> {
        let above = &parent.directory;
        let path = above.join(name);
        if let ControlFlow::Break(output) = self.visitor.approach(above, &path)? {
            return Ok(Vec::from_iter(output));
        }
        let opened = open_below(above, name, &path, only.is_some(), self.stand_ins);
        self.directory(slot, (Some(parent), None), (path, opened), only)
    }

    /// Enters and lists a directory that was opened, and visits its entries if they are few. `named` is the path of a
    /// directory where the walk begins.
    fn directory(
        &self,
        slot: frontier::Slot,
        (parent, named): (Option<&Open<V::Place>>, Option<PathBuf>),
        (path, opened): (Vec<u8>, rustix::io::Result<Directory<()>>),
        only: Option<Arc<Node>>,
    ) -> Result<Vec<V::Output>> {
        let above = parent.map(|parent| &parent.directory);
        let directory = match opened {
            Ok(directory) => directory,
            Err(errno) => return self.unopened(above, &path, only.as_deref(), errno).map(Vec::from_iter),
        };
        let Some((place, header)) = self.visitor.enter(&directory, above)? else {
            return Ok(Vec::new());
        };
        let is_source = only.is_none() && above.is_none_or(|above| above.scaffold);
        if (is_source && !directory.frozen) || directory.is_living {
            self.meanwhile.entered(&directory, named);
        }
        let mut outputs = vec![header];
        let names = match &only {
            Some(node) => self.wanted(&directory, node)?,
            None => self.list(&directory, &place, is_source)?,
        };
        let batches = names.batches();
        let pending = AtomicUsize::new(batches + names.directories());
        let open = Arc::new(Open { directory: directory.with(place), names, only, pending });
        self.examine(&open.directory)?;
        let inline = batches == 1;
        let rest = (if inline { 1 } else { 0 }..batches, 0..open.names.directories());
        // A directory on the path may be searchable but not readable.
        let length = (!open.directory.scaffold).then_some(path.len());
        self.frontier.expand(slot, &open, rest, length, |open| self.close(open));
        if inline {
            outputs.push(self.batch(&open, 0)?);
            self.settle(&open)?;
        } else if batches + open.names.directories() == 0 {
            self.visitor.leave(&open.directory)?;
        }
        Ok(outputs)
    }

    /// Handles a directory that could not be opened.
    fn unopened(
        &self,
        above: Option<&Directory<V::Place>>,
        path: &[u8],
        only: Option<&Node>,
        errno: Errno,
    ) -> Result<Option<V::Output>> {
        let error = Error::io("open the directory", absolute(path), errno);
        if is_exhausted(errno) {
            return Err(error);
        }
        let is_lost = matches!(errno, Errno::NOENT | Errno::NOTCONN) || shutdown::is_suspected(errno);
        match above.filter(|above| !above.scaffold) {
            Some(above) if errno == Errno::NOENT => {
                self.meanwhile.lacks_directory(above, split(path).1);
                self.visitor.gone();
                return Ok(None);
            }
            None if is_lost => {
                self.unfound(path, only, errno)?;
                return Ok(None);
            }
            _ => {}
        }
        let error = match errno {
            Errno::NOTDIR | Errno::LOOP => Error::failed("open the directory")
                .at(absolute(path))
                .hint("it became something else while its parent was read; run again"),
            _ => error,
        };
        self.visitor.unreadable(above, path, error)
    }

    /// The sources in the part `only` of the directory at `path` cannot be found. `None`: it is a source.
    fn unfound(&self, path: &[u8], only: Option<&Node>, errno: Errno) -> Result<()> {
        let sources = only.map_or_else(|| vec![path.to_vec()], |node| node.sources(path));
        let errors = sources.iter().map(|source| Error::io("find the source", absolute(source), errno));
        errors.into_iter().try_for_each(|error| self.visitor.unfound(error))
    }

    /// The wanted names in a directory on the path to sources.
    fn wanted(&self, directory: &Directory<()>, node: &Node) -> Result<Names> {
        let (names, missing) = node.names(&directory.fd);
        for (name, errno) in missing {
            let only = node.child(name).map(|child| &**child);
            self.unfound(&join(&directory.path, name), only, errno)?;
        }
        Ok(names)
    }

    /// Lists a directory that is wanted completely.
    fn list(&self, directory: &Directory<()>, place: &V::Place, is_source: bool) -> Result<Names> {
        let (names, cut) = self.visitor.list(directory, place);
        if names.has_missing {
            directory.note_missing(b"");
        }
        let Some(cause) = cut else { return Ok(names) };
        let errno = Errno::from_io_error(&cause);
        let error = Error::io("list the directory", absolute(&directory.path), cause);
        match errno {
            Some(errno) if is_exhausted(errno) => return Err(error),
            _ if is_source && names.entries() + names.directories() == 0 => self.visitor.unfound(error)?,
            Some(Errno::NOENT) if names::is_deleted(&directory.fd) => {
                directory.note_missing(b"");
                self.visitor.gone();
            }
            _ => self.visitor.incomplete(error),
        }
        Ok(names)
    }

    fn batch(&self, open: &Open<V::Place>, number: usize) -> Result<V::Output> {
        let output = self.visitor.batch(&open.directory, &mut open.names.batch(number))?;
        self.examine(&open.directory)?;
        Ok(output)
    }

    /// Remembers a directory with names that were not found. On the path to sources, these are sources.
    fn examine(&self, directory: &Directory<V::Place>) -> Result<()> {
        if directory.scaffold {
            let names = directory.missing.take_names();
            names.iter().try_for_each(|name| self.unfound(&directory.join(name), None, Errno::NOENT))
        } else {
            if directory.missing.is_new() {
                self.meanwhile.lacks(directory);
            }
            Ok(())
        }
    }

    /// Records that one part of a directory was started or finished. The last part leaves the directory.
    fn settle(&self, open: &Open<V::Place>) -> Result<()> {
        match open.pending.fetch_sub(1, Ordering::AcqRel) {
            1 => self.visitor.leave(&open.directory),
            _ => Ok(()),
        }
    }

    /// Puts outputs in their place in the order, and delivers those at the front.
    fn deliver(&self, slot: frontier::Slot, outputs: Vec<V::Output>) -> Result<()> {
        self.frontier.done(slot, outputs);
        // The thread that holds the sink checks again after it releases the sink, so no output is forgotten.
        while self.frontier.has_ready() {
            let Ok(mut sink) = self.sink.try_lock() else { return Ok(()) };
            while let Some(outputs) = self.frontier.take_ready() {
                outputs.into_iter().try_for_each(&mut *sink)?;
            }
        }
        Ok(())
    }
}
