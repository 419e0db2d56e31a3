//! The order of a parallel walk.
//!
//! The frontier is a list of slots in the order of the result. A slot is a running or finished task, or the *rest* of a
//! directory: the batches of entries and the subdirectories that no thread has started. A free thread takes the next
//! task from the first rest, so the walk stays close to its front. Outputs leave at the front. The number of outputs
//! that wait for an earlier slot is bounded: beyond [`Frontier::limit`] tasks a thread waits, unless it could start the
//! very first task, which must always continue. So the memory is bounded by the names of the directories on the path,
//! and by that number of outputs.
//!
//! Only a limited number of the directories with a rest are open ([`most_open`]). The directories that were opened
//! first are farthest from the front. They are closed, and reopened when they are at the front.

use super::sources::Top;
use crate::fs::open_files;
use crate::util::mutex::lock;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A piece of work.
pub(super) enum Task<D> {
    /// A directory where the walk begins, and its number.
    Top(Top, usize),
    /// A batch of a directory's entries.
    Batch(Arc<D>, usize),
    /// A subdirectory, by its number.
    Directory(Arc<D>, usize),
}

/// The position of a task in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(usize);

pub(super) struct Frontier<D, C, O> {
    state: Mutex<State<D, C, O>>,
    changed: Condvar,
    limit: usize,
    most_open: usize,
}

/// The most bytes in the paths of open directories, unless very few directories are open.
const MOST_PATHS: usize = 16 << 20;
/// A path of this length counts as much as a task.
const LONG_PATH: usize = 64 << 10;

/// The most directories with a rest that are open. Each needs two or three descriptors, and other work needs some too.
fn most_open() -> usize {
    open_files::part(12, 4..=512)
}

struct State<D, C, O> {
    /// A linked list over `nodes` that starts at `first`. Freed nodes are reused.
    nodes: Vec<Link<D, C, O>>,
    free: Vec<usize>,
    first: Option<usize>,
    /// Tasks that run, and tasks with outputs that wait.
    tasks: usize,
    stopped: bool,
    /// The rests of open directories, in the order in which the directories were opened: node and number.
    open: VecDeque<(usize, u64)>,
    /// The number of open directories with a rest, and the bytes in their paths.
    opened: (usize, usize),
    /// The number of rests so far.
    rests: u64,
}

struct Link<D, C, O> {
    next: Option<usize>,
    content: Content<D, C, O>,
}

enum Content<D, C, O> {
    Free,
    Begin(Top, usize),
    Running,
    Done(Vec<O>),
    Rest(Rest<D, C>),
}

/// The part of a directory that was not started.
struct Rest<D, C> {
    directory: Held<D, C>,
    number: u64,
    /// The length of the directory's path. `None`: the directory must stay open.
    length: Option<usize>,
    batches: Range<usize>,
    directories: Range<usize>,
}

enum Held<D, C> {
    Open(Arc<D>),
    Closed(C),
    /// It could not be reopened.
    Lost,
}

impl<D, C> Rest<D, C> {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.directories.is_empty()
    }

    fn take(&mut self) -> Option<Task<D>> {
        let Held::Open(directory) = &self.directory else { return None };
        if let Some(number) = self.batches.next() {
            return Some(Task::Batch(Arc::clone(directory), number));
        }
        self.directories.next().map(|number| Task::Directory(Arc::clone(directory), number))
    }
}

impl<D, C, O> Frontier<D, C, O> {
    /// A frontier for this number of threads.
    pub(super) fn new(threads: usize) -> Self {
        let (nodes, free, open) = (Vec::new(), Vec::new(), VecDeque::new());
        let state = State { nodes, free, first: None, tasks: 0, stopped: false, open, opened: (0, 0), rests: 0 };
        Frontier { state: Mutex::new(state), changed: Condvar::new(), limit: threads * 16, most_open: most_open() }
    }

    fn state(&self) -> MutexGuard<'_, State<D, C, O>> {
        lock(&self.state)
    }

    /// Adds the directories where the walk begins.
    pub(super) fn begin(&self, tops: Vec<Top>) {
        let mut state = self.state();
        for (number, top) in tops.into_iter().enumerate().rev() {
            let next = state.first;
            state.first = Some(state.allocate(Content::Begin(top, number), next));
        }
    }

    /// The next task, once there is one. Returns `None` when the walk has ended. `reopen` reopens a directory that was
    /// closed.
    pub(super) fn next(&self, reopen: impl Fn(C) -> Option<Arc<D>>) -> Option<(Slot, Task<D>)> {
        let mut state = self.state();
        loop {
            if state.stopped || state.first.is_none() {
                self.changed.notify_all();
                return None;
            }
            if let Some(found) = state.take(self.limit, &reopen) {
                return Some(found);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds, behind the running task `slot`, these batches and subdirectories of a directory with a path of this
    /// length. `close` closes a directory without running tasks.
    pub(super) fn expand(
        &self,
        slot: Slot,
        directory: &Arc<D>,
        (batches, directories): (Range<usize>, Range<usize>),
        length: Option<usize>,
        close: impl Fn(D) -> C,
    ) {
        if batches.is_empty() && directories.is_empty() {
            return;
        }
        let mut state = self.state();
        let number = state.rests;
        state.rests += 1;
        let rest = Rest { directory: Held::Open(Arc::clone(directory)), number, length, batches, directories };
        let next = state.nodes[slot.0].next;
        let node = state.allocate(Content::Rest(rest), next);
        state.nodes[slot.0].next = Some(node);
        state.is_open(node, number, length);
        state.close(self.most_open, close);
        drop(state);
        self.changed.notify_all();
    }

    /// Records that a task has ended with these outputs.
    pub(super) fn done(&self, slot: Slot, outputs: Vec<O>) {
        self.state().nodes[slot.0].content = Content::Done(outputs);
    }

    /// Whether the outputs of the first slot are ready.
    pub(super) fn has_ready(&self) -> bool {
        let state = self.state();
        !state.stopped && state.first.is_some_and(|first| matches!(state.nodes[first].content, Content::Done(_)))
    }

    /// Removes and returns the outputs of the first slot if they are ready.
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

    /// Ends the walk: no more tasks are started.
    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }
}

impl<D, C, O> State<D, C, O> {
    fn is_open(&mut self, node: usize, number: u64, length: Option<usize>) {
        let Some(length) = length else { return };
        self.open.push_back((node, number));
        self.opened = (self.opened.0 + 1, self.opened.1 + length);
        // Rests that were started completely stay in the list until now.
        if self.open.len() > 64 + 2 * self.opened.0 {
            let nodes = &self.nodes;
            self.open.retain(
                |(node, number)| matches!(&nodes[*node].content, Content::Rest(rest) if rest.number == *number),
            );
        }
    }

    fn is_not_open(&mut self, length: Option<usize>) {
        let Some(length) = length else { return };
        self.opened = (self.opened.0.saturating_sub(1), self.opened.1.saturating_sub(length));
    }

    /// Closes the directories that have been open the longest, until few enough are open.
    fn close(&mut self, most: usize, close: impl Fn(D) -> C) {
        let mut tries = self.open.len();
        while tries > 0 && (self.opened.0 > most || (self.opened.0 > 4 && self.opened.1 > MOST_PATHS)) {
            tries -= 1;
            let Some((node, number)) = self.open.pop_front() else { return };
            let Content::Rest(rest) = &mut self.nodes[node].content else { continue };
            if rest.number != number {
                continue;
            }
            match std::mem::replace(&mut rest.directory, Held::Lost) {
                Held::Open(directory) => match Arc::try_unwrap(directory) {
                    Ok(directory) => {
                        rest.directory = Held::Closed(close(directory));
                        let length = rest.length;
                        self.is_not_open(length);
                    }
                    // One of its tasks is running.
                    Err(directory) => {
                        rest.directory = Held::Open(directory);
                        self.open.push_back((node, number));
                    }
                },
                held => rest.directory = held,
            }
        }
    }

    fn allocate(&mut self, content: Content<D, C, O>, next: Option<usize>) -> usize {
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

    /// The first task that may start.
    fn take(&mut self, limit: usize, reopen: &impl Fn(C) -> Option<Arc<D>>) -> Option<(Slot, Task<D>)> {
        let mut before: Option<usize> = None;
        let mut at = self.first;
        while let Some(node) = at {
            let next = self.nodes[node].next;
            // If the limit is reached, only the first task may start.
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
                    let (number, length) = (rest.number, rest.length);
                    // Outputs contain paths, so fewer outputs with long paths may wait.
                    if before.is_some() && self.tasks >= limit / (1 + length.unwrap_or(0) / LONG_PATH) {
                        return None;
                    }
                    let mut is_reopened = false;
                    if matches!(rest.directory, Held::Closed(_))
                        && let Held::Closed(closed) = std::mem::replace(&mut rest.directory, Held::Lost)
                        && let Some(directory) = reopen(closed)
                    {
                        rest.directory = Held::Open(directory);
                        is_reopened = true;
                    }
                    let is_lost = matches!(rest.directory, Held::Lost);
                    let task = rest.take();
                    let is_empty = rest.is_empty();
                    if is_reopened {
                        self.is_open(node, number, length);
                    }
                    if is_empty && !is_lost {
                        self.is_not_open(length);
                    }
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
                    if is_lost {
                        match before {
                            Some(before) => self.nodes[before].next = next,
                            None => self.first = next,
                        }
                        self.nodes[node].content = Content::Free;
                        self.free.push(node);
                        at = next;
                        continue;
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
