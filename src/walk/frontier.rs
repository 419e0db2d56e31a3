//! The order of a parallel walk.
//!
//! The frontier is a list of slots in the order of the result. A slot is a task that runs or has ended, or the *rest* of a
//! directory: its batches of entries and subdirectories that nobody has begun. A free thread takes the next task from
//! the first rest, so the walk stays close to its front; outputs leave at the front. What waits for an earlier slot is
//! bounded: beyond [`Frontier::limit`] tasks a thread waits, unless what it could begin is the very front, which must
//! always go on. Memory is thus the names of the directories on the way, and that many outputs.

use super::sources::Top;
use crate::mutex::lock;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A piece of work.
pub(super) enum Task<D> {
    /// A directory that the walk begins with, and its number.
    Top(Top, usize),
    /// A batch of a directory's entries.
    Batch(Arc<D>, usize),
    /// A subdirectory, by its number.
    Directory(Arc<D>, usize),
}

/// The place of a task in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(usize);

pub(super) struct Frontier<D, O> {
    state: Mutex<State<D, O>>,
    changed: Condvar,
    limit: usize,
}

struct State<D, O> {
    /// Linked list over `nodes`, from `first`; freed nodes are reused.
    nodes: Vec<Link<D, O>>,
    free: Vec<usize>,
    first: Option<usize>,
    /// Tasks that run or whose outputs wait.
    tasks: usize,
    stopped: bool,
}

struct Link<D, O> {
    next: Option<usize>,
    content: Content<D, O>,
}

enum Content<D, O> {
    Free,
    Begin(Top, usize),
    Running,
    Done(Vec<O>),
    Rest(Rest<D>),
}

/// What of a directory has not been begun.
struct Rest<D> {
    directory: Arc<D>,
    batches: std::ops::Range<usize>,
    directories: std::ops::Range<usize>,
}

impl<D> Rest<D> {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.directories.is_empty()
    }

    fn take(&mut self) -> Option<Task<D>> {
        if let Some(number) = self.batches.next() {
            return Some(Task::Batch(Arc::clone(&self.directory), number));
        }
        self.directories.next().map(|number| Task::Directory(Arc::clone(&self.directory), number))
    }
}

impl<D, O> Frontier<D, O> {
    /// A frontier for this many threads.
    pub(super) fn new(threads: usize) -> Self {
        let state = State { nodes: Vec::new(), free: Vec::new(), first: None, tasks: 0, stopped: false };
        Frontier { state: Mutex::new(state), changed: Condvar::new(), limit: threads * 16 }
    }

    fn state(&self) -> MutexGuard<'_, State<D, O>> {
        lock(&self.state)
    }

    /// Puts in what the walk begins with.
    pub(super) fn begin(&self, tops: Vec<Top>) {
        let mut state = self.state();
        for (number, top) in tops.into_iter().enumerate().rev() {
            let next = state.first;
            state.first = Some(state.allocate(Content::Begin(top, number), next));
        }
    }

    /// The next task, when there is one; `None` when the walk is over.
    pub(super) fn next(&self) -> Option<(Slot, Task<D>)> {
        let mut state = self.state();
        loop {
            if state.stopped || state.first.is_none() {
                self.changed.notify_all();
                return None;
            }
            if let Some(found) = state.take(self.limit) {
                return Some(found);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Behind the running task `slot`: the batches from `from` on and all subdirectories of a directory.
    pub(super) fn expand(&self, slot: Slot, directory: &Arc<D>, from: usize, batches: usize, directories: usize) {
        let rest = Rest { directory: Arc::clone(directory), batches: from..batches, directories: 0..directories };
        if rest.is_empty() {
            return;
        }
        let mut state = self.state();
        let next = state.nodes[slot.0].next;
        let node = state.allocate(Content::Rest(rest), next);
        state.nodes[slot.0].next = Some(node);
        drop(state);
        self.changed.notify_all();
    }

    /// A task has ended with these outputs.
    pub(super) fn done(&self, slot: Slot, outputs: Vec<O>) {
        self.state().nodes[slot.0].content = Content::Done(outputs);
    }

    /// Whether the first slot has its outputs ready.
    pub(super) fn has_ready(&self) -> bool {
        let state = self.state();
        !state.stopped && state.first.is_some_and(|first| matches!(state.nodes[first].content, Content::Done(_)))
    }

    /// Takes the outputs of the first slot if they are ready.
    pub(super) fn take_ready(&self) -> Option<Vec<O>> {
        let mut state = self.state();
        let first = state.first?;
        if !matches!(state.nodes[first].content, Content::Done(_)) {
            return None;
        }
        let Content::Done(outputs) = std::mem::replace(&mut state.nodes[first].content, Content::Free) else {
            return None;
        };
        state.first = state.nodes[first].next;
        state.free.push(first);
        state.tasks -= 1;
        drop(state);
        self.changed.notify_all();
        Some(outputs)
    }

    /// Ends the walk: no further task is given out.
    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }
}

impl<D, O> State<D, O> {
    fn allocate(&mut self, content: Content<D, O>, next: Option<usize>) -> usize {
        let link = Link { next, content };
        match self.free.pop() {
            Some(node) => {
                self.nodes[node] = link;
                node
            }
            None => {
                self.nodes.push(link);
                self.nodes.len() - 1
            }
        }
    }

    /// The first task that may begin.
    fn take(&mut self, limit: usize) -> Option<(Slot, Task<D>)> {
        let mut before: Option<usize> = None;
        let mut at = self.first;
        while let Some(node) = at {
            let next = self.nodes[node].next;
            // Behind a full house nothing begins but the front itself.
            if before.is_some() && self.tasks >= limit {
                return None;
            }
            match &mut self.nodes[node].content {
                Content::Begin(top, number) => {
                    let task = Task::Top(std::mem::take(top), *number);
                    self.nodes[node].content = Content::Running;
                    self.tasks += 1;
                    return Some((Slot(node), task));
                }
                Content::Rest(rest) => {
                    let task = rest.take();
                    let is_empty = rest.is_empty();
                    if let Some(task) = task {
                        let new = self.insert_before(node, before);
                        self.tasks += 1;
                        if is_empty {
                            self.nodes[new].next = next;
                            self.nodes[node].content = Content::Free;
                            self.free.push(node);
                        }
                        return Some((Slot(new), task));
                    }
                }
                Content::Running | Content::Done(_) | Content::Free => {}
            }
            before = at;
            at = next;
        }
        None
    }

    fn insert_before(&mut self, node: usize, before: Option<usize>) -> usize {
        let new = self.allocate(Content::Running, Some(node));
        match before {
            Some(before) => self.nodes[before].next = Some(new),
            None => self.first = Some(new),
        }
        new
    }
}
