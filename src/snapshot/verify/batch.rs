//! Paths that are checked together by several threads, and the directories that end behind them. Bounded in entries and
//! open directories.

use super::context::Context;
use super::levels::{Ending, Place};
use super::member::Member;
use super::path;
use crate::error::Result;
use crate::fs::open_files;
use crate::snapshot::manifest::Entry;
use crate::util::parallel::{self, READERS};
use std::sync::Arc;

/// How many entries are checked together, over all snapshots, and how many directories may end behind them.
const ENTRIES: usize = 4096;

/// The work that is due.
#[derive(Default)]
pub(super) struct Batch {
    paths: Vec<(Vec<u8>, Vec<Member>)>,
    entries: usize,
    places: usize,
    pub(super) endings: Vec<Ending>,
}

impl Batch {
    /// Adds the entries of one path, each with its snapshot and its directory.
    pub(super) fn push(&mut self, path: Vec<u8>, members: Vec<(usize, Arc<Place>, Entry)>) {
        self.entries += members.len();
        let members = members.into_iter().map(|(snapshot, place, entry)| Member::new(snapshot, place, entry));
        self.paths.push((path, members.collect()));
    }

    /// Notes that this many directories were opened.
    pub(super) fn opened(&mut self, places: usize) {
        self.places += places;
    }

    /// Does the work if enough is due.
    pub(super) fn flush_if_full(&mut self, context: &Context<'_>) -> Result<()> {
        let many_places = open_files::part(8, 32..=1024);
        let is_full = self.entries >= ENTRIES || self.places >= many_places || self.endings.len() >= ENTRIES;
        if is_full { self.flush(context) } else { Ok(()) }
    }

    /// Does the work.
    ///
    /// # Errors
    /// If the run should stop.
    pub(super) fn flush(&mut self, context: &Context<'_>) -> Result<()> {
        let threads = context.options.threads.unwrap_or(READERS);
        (self.entries, self.places) = (0, 0);
        let paths = std::mem::take(&mut self.paths);
        for checked in parallel::each(threads, paths, |(path, members)| path::check(context, &path, members)) {
            checked?;
        }
        parallel::each(threads, std::mem::take(&mut self.endings), |ending| ending.check(context));
        context.check()
    }
}
