//! Paths that are checked together by several threads, and the directories that end behind them. Several batches are in
//! progress, and they end in their order. Bounded in entries and open directories.

use super::content;
use super::context::Context;
use super::levels::{Ending, Place};
use super::member::{Held, Member, Members};
use super::progress::{Progress, Ticket};
use super::queue::Queue;
use super::sharing;
use crate::error::Result;
use crate::fs::open_files;
use crate::snapshot::manifest::Entry;
use crate::util::mutex::lock;
use crate::util::parallel::{self, READERS};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many entries are a batch, over all snapshots, and how many directories may end behind them.
const ENTRIES: usize = 2048;
/// How many entries may be in memory before another batch is collected. If many large files come first, this is enough
/// to look up small files for as long as the large ones are read.
const MOST_ENTRIES: usize = 1 << 15;
/// How many batches may wait for one before them.
const MOST_BATCHES: usize = 512;

/// The work that is due.
pub(super) struct Batch<'q> {
    queue: &'q Queue,
    /// Whether other threads do the work of the queue.
    has_threads: bool,
    paths: Vec<Members>,
    entries: usize,
    places: usize,
    held: Arc<Held>,
    pub(super) endings: Vec<Ending>,
    /// The batches before it, the oldest first.
    started: VecDeque<Started>,
}

struct Started {
    progress: Arc<Progress>,
    places: usize,
    endings: Vec<Ending>,
}

impl<'q> Batch<'q> {
    pub(super) fn new(queue: &'q Queue, has_threads: bool) -> Batch<'q> {
        let (paths, endings, started) = (Vec::new(), Vec::new(), VecDeque::new());
        Batch { queue, has_threads, paths, entries: 0, places: 0, held: Arc::default(), endings, started }
    }

    /// Adds the entries of one path, each with its snapshot and its directory.
    pub(super) fn push(&mut self, path: Vec<u8>, members: Vec<(usize, Arc<Place>, Entry)>) {
        self.entries += members.len();
        let all = members.into_iter().map(|(snapshot, place, entry)| Member::new(snapshot, place, entry)).collect();
        self.paths.push(Members::new(path, all, &self.held));
    }

    /// Notes that this many directories were opened.
    pub(super) fn opened(&mut self, places: usize) {
        self.places += places;
    }

    /// Starts the work if enough is due.
    ///
    /// # Errors
    /// If the run should stop.
    pub(super) fn start_if_full(&mut self, context: &Context<'_>) -> Result<()> {
        let many_places = open_files::part(8, 32..=1024);
        if self.entries < ENTRIES && self.places < many_places / 4 && self.endings.len() < ENTRIES {
            return Ok(());
        }
        self.start();
        while self.is_too_far(many_places) || (self.has_too_many_entries() && !self.wait()) {
            self.end_first(context)?;
        }
        context.check()
    }

    /// Whether the first batch must end before another one is collected.
    fn is_too_far(&self, many_places: usize) -> bool {
        let places = || self.started.iter().map(|started| started.places).sum::<usize>();
        !self.started.is_empty() && (self.started.len() > MOST_BATCHES || places() > many_places)
    }

    fn has_too_many_entries(&self) -> bool {
        !self.started.is_empty() && self.held.entries() > MOST_ENTRIES
    }

    /// Waits until there are fewer entries, or the first batch can end. Returns whether there are fewer entries.
    ///
    /// If the first batch has a large file, many batches behind it are done before it is.
    fn wait(&self) -> bool {
        let Some(first) = self.started.front().filter(|_| self.has_threads) else { return false };
        self.held.wait(MOST_ENTRIES, || first.progress.is_done());
        !self.has_too_many_entries()
    }

    /// Does all the work.
    ///
    /// # Errors
    /// If the run should stop.
    pub(super) fn finish(&mut self, context: &Context<'_>) -> Result<()> {
        self.start();
        while !self.started.is_empty() {
            self.end_first(context)?;
        }
        context.check()
    }

    fn start(&mut self) {
        let progress = Arc::new(Progress::new(&self.held));
        let paths = std::mem::take(&mut self.paths).into_iter();
        self.queue.add(paths.map(|members| (Arc::new(members), Ticket::of(&progress))));
        let endings = std::mem::take(&mut self.endings);
        self.started.push_back(Started { progress, places: self.places, endings });
        (self.entries, self.places) = (0, 0);
    }

    /// Ends the oldest batch: all batches before it have ended, so all entries of its directories are checked.
    fn end_first(&mut self, context: &Context<'_>) -> Result<()> {
        let Some(Started { progress, endings, .. }) = self.started.pop_front() else { return Ok(()) };
        if !self.has_threads {
            self.queue.work_off(context);
        }
        progress.wait();
        self.queue.failure()?;
        let threads = context.options.threads.unwrap_or(READERS);
        content::settle(context, std::mem::take(&mut *lock(&progress.later)), threads)?;
        let readable = std::mem::take(&mut *lock(&progress.readable));
        let measure = |(members, numbers): (Arc<Members>, Vec<usize>)| {
            let present: Vec<_> = numbers.into_iter().map(|number| &members.all[number]).collect();
            sharing::check(context, &members.path, &present)
        };
        parallel::each(threads, readable, measure).into_iter().collect::<Result<()>>()?;
        endings.iter().for_each(|ending| ending.check(context));
        Ok(())
    }
}
