//! The work of all threads: entries to look up, paths to check, and files to read. While there is other work, few
//! files that are not small are read: their large requests would keep the device from the small ones of the other
//! threads, and the processors would wait. So the device and the processors are both busy until the end.
//!
//! `batch` fills the queue, and waits for the work of each batch.

use super::claim::Claim;
use super::context::Context;
use super::lookup::{self, Lookup};
use super::member::{Held, Members};
use super::reading::Reading;
use super::results::Place;
use crate::error::{Error, Result};
use crate::fs::open_files;
use crate::util::mutex::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How many files that are not small are read at once if nothing else can be done: more would only wear out a disk's
/// arm.
const TURNS: usize = 4;
/// How many while there is other work.
const TURNS_BESIDE: usize = 2;

/// What a batch waits for, and what its work leaves for its end.
pub(super) struct Progress {
    pending: Mutex<usize>,
    done: Condvar,
    /// Its thread that waits hears of the end too.
    held: Arc<Held>,
    /// Files with data that another thread was reading under another name.
    pub(super) later: Mutex<Vec<(Place, Claim)>>,
    /// Paths with readable files, and the numbers of their members, if sharing must be measured.
    pub(super) readable: Mutex<Vec<(Arc<Members>, Vec<usize>)>>,
}

/// A part of a batch that is not done until this is dropped.
pub(super) struct Ticket(Arc<Progress>);

impl Ticket {
    pub(super) fn of(progress: &Arc<Progress>) -> Ticket {
        *lock(&progress.pending) += 1;
        Ticket(Arc::clone(progress))
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.0
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut pending = lock(&self.0.pending);
        *pending -= 1;
        let is_done = *pending == 0;
        drop(pending);
        if is_done {
            self.0.done.notify_all();
            self.0.held.wake();
        }
    }
}

impl Progress {
    pub(super) fn new(held: &Arc<Held>) -> Progress {
        let (pending, done, held) = (Mutex::new(0), Condvar::new(), Arc::clone(held));
        Progress { pending, done, held, later: Mutex::default(), readable: Mutex::default() }
    }

    /// Whether all of it is done.
    pub(super) fn is_done(&self) -> bool {
        *lock(&self.pending) == 0
    }

    /// Waits until all of it is done.
    pub(super) fn wait(&self) {
        drop(self.done.wait_while(lock(&self.pending), |pending| *pending > 0).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Checks a path. It may add files to the queue, with further tickets.
pub(super) type Check = fn(&Context<'_>, &Queue, &Arc<Members>, Ticket) -> Result<()>;

/// The queue.
pub(super) struct Queue {
    check: Check,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lookups: VecDeque<Lookup>,
    paths: VecDeque<(Arc<Members>, Ticket)>,
    reads: VecDeque<(Reading, Ticket)>,
    /// The open files of `reads`.
    files: usize,
    /// The turns of the `reads` that are in progress.
    reading: usize,
    is_closed: bool,
    failure: Option<Error>,
}

enum Work {
    Look(Lookup),
    Path(Arc<Members>, Ticket),
    Read(Reading, Ticket),
}

impl Queue {
    /// An empty queue.
    pub(super) fn new(check: Check) -> Queue {
        Queue { check, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds paths.
    pub(super) fn add(&self, paths: impl Iterator<Item = (Arc<Members>, Ticket)>) {
        let mut paths = paths.peekable();
        while paths.peek().is_some() {
            let lookups = Lookup::all(paths.by_ref().take(lookup::PATHS).collect());
            let mut state = lock(&self.state);
            match lookups {
                Ok(lookups) => state.lookups.extend(lookups),
                Err(paths) => state.paths.extend(paths),
            }
        }
        self.changed.notify_all();
    }

    /// Adds files that must be read.
    pub(super) fn add_read(&self, reading: Reading, ticket: Ticket) {
        let mut state = lock(&self.state);
        state.files += reading.files();
        state.reads.push_back((reading, ticket));
        drop(state);
        self.changed.notify_one();
    }

    /// Ends the threads that are waiting for work.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }

    /// Works until the queue is closed.
    pub(super) fn work(&self, context: &Context<'_>) {
        while let Some(work) = self.next(true) {
            self.run(context, work);
        }
    }

    /// Works until the queue is empty: if no thread could be started.
    pub(super) fn work_off(&self, context: &Context<'_>) {
        while let Some(work) = self.next(false) {
            self.run(context, work);
        }
    }

    /// The reason to end the run, if there is one.
    ///
    /// # Errors
    /// This reason.
    pub(super) fn failure(&self) -> Result<()> {
        lock(&self.state).failure.take().map_or(Ok(()), Err)
    }

    fn next(&self, waits: bool) -> Option<Work> {
        let most_files = open_files::part(8, 8..=2048);
        let mut state = lock(&self.state);
        loop {
            let may_open = state.files < most_files;
            let has_others = !state.lookups.is_empty() || (may_open && !state.paths.is_empty());
            let most = if has_others { TURNS_BESIDE } else { TURNS };
            if state.reading < most
                && let Some((reading, ticket)) = state.reads.pop_front()
            {
                state.reading += reading.turns();
                state.files -= reading.files();
                return Some(Work::Read(reading, ticket));
            }
            if may_open && let Some((members, ticket)) = state.paths.pop_front() {
                return Some(Work::Path(members, ticket));
            }
            if let Some(lookup) = state.lookups.pop_front() {
                return Some(Work::Look(lookup));
            }
            if state.is_closed || !waits {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, context: &Context<'_>, work: Work) {
        let result = match work {
            Work::Look(lookup) => {
                let paths = lookup.run(context);
                if !paths.is_empty() {
                    lock(&self.state).paths.extend(paths);
                    self.changed.notify_all();
                }
                Ok(())
            }
            Work::Path(members, ticket) => (self.check)(context, self, &members, ticket),
            Work::Read(reading, _ticket) => {
                let turns = reading.turns();
                let result = reading.read(context);
                lock(&self.state).reading -= turns;
                self.changed.notify_all();
                result
            }
        };
        if let Err(error) = result {
            lock(&self.state).failure.get_or_insert(error);
        }
    }
}
