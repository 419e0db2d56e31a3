//! The progress of a batch: it ends when all parts of its work have ended.

use super::claim::Claim;
use super::member::{Held, Members};
use super::results::Place;
use crate::util::mutex::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

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
