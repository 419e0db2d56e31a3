//! The work of all threads: entries to look up, paths to check, and files to read. While there is other work, few
//! files that are not small are read: their large requests would keep the device from the small ones of the other
//! threads, and the processors would wait. So the device and the processors are both busy until the end.
//!
//! `batch` fills the queue, and waits for the work of each batch.

use super::context::Context;
use super::lookup::{self, Lookup};
use super::member::Members;
use super::progress::Ticket;
use super::reading::Reading;
use crate::error::{Error, Result};
use crate::fs::open_files;
use crate::util::mutex::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How many files that are not small are read at once if nothing else can be done: more would only wear out a disk's
/// arm.
const TURNS: usize = 4;
/// How many threads read them while there is other work.
const THREADS_BESIDE: usize = 2;

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
    /// How many of `reads` are in progress, and by how many threads.
    reading: usize,
    threads: usize,
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
            let has_turn = if has_others { state.threads < THREADS_BESIDE } else { state.reading < TURNS };
            if has_turn && let Some((reading, ticket)) = state.reads.pop_front() {
                state.reading += 1;
                state.threads += reading.threads();
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
                let threads = reading.threads();
                let result = reading.read(context);
                let mut state = lock(&self.state);
                state.reading -= 1;
                state.threads -= threads;
                drop(state);
                self.changed.notify_all();
                result
            }
        };
        if let Err(error) = result {
            lock(&self.state).failure.get_or_insert(error);
        }
    }
}
