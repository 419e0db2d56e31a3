//! A monitor that passes everything on, and keeps the first problems and damage for a record.

use super::skipped::Subtrees;
use crate::error::Error;
use crate::monitor::{Damage, MOST, Monitor, Note, Reported};
use crate::util::mutex::{self, lock};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;

/// How many bytes the paths of skipped entries take at most.
const SKIPPED: usize = 1 << 20;

/// The notes of a run.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The first problems.
    pub problems: Vec<Note>,
    /// The first damage.
    pub damage: Vec<Note>,
    /// All problems.
    pub count: u64,
    /// The paths of the first skipped entries, without their leading slash.
    pub skipped: Vec<Vec<u8>>,
    /// All skipped entries.
    pub skipped_count: u64,
    skipped_bytes: usize,
    skipped_trees: Subtrees,
}

impl Notes {
    fn skip(&mut self, path: &Path) {
        self.skipped_count += 1;
        let path = path.as_os_str().as_bytes().strip_prefix(b"/").unwrap_or_default();
        if self.skipped_bytes + path.len() <= SKIPPED {
            self.skipped_bytes += path.len() + 1;
            self.skipped.push(path.to_vec());
            self.skipped_trees.add(path);
        }
    }
}

/// A monitor that keeps notes.
pub(crate) struct Noting<'m> {
    inner: &'m dyn Monitor,
    notes: Mutex<Notes>,
    /// Problems that were passed on, if each is passed on only once.
    seen: Option<Mutex<Reported>>,
}

impl<'m> Noting<'m> {
    /// Passes everything on to `inner`.
    pub(crate) fn new(inner: &'m dyn Monitor) -> Self {
        Noting { inner, notes: Mutex::default(), seen: None }
    }

    /// The same, for a run of several engines: a problem that each of them reports is passed on and counted once.
    pub(crate) fn once(inner: &'m dyn Monitor) -> Self {
        Noting { seen: Some(Mutex::default()), ..Noting::new(inner) }
    }

    /// The notes.
    pub(crate) fn finish(self) -> Notes {
        mutex::into_inner(self.notes)
    }

    /// Whether the entry at a path, or a directory above it, was skipped.
    pub(crate) fn has_skipped(&self, path: &[u8]) -> bool {
        lock(&self.notes).skipped_trees.has(path)
    }

    fn is_repeated(&self, error: &Error) -> bool {
        self.seen.as_ref().is_some_and(|seen| !lock(seen).add(error))
    }
}

impl Monitor for Noting<'_> {
    fn inner(&self) -> Option<&dyn Monitor> {
        Some(self.inner)
    }

    fn problem(&self, error: &Error) {
        if self.is_repeated(error) {
            return;
        }
        {
            let mut notes = lock(&self.notes);
            notes.count += 1;
            if notes.problems.len() < MOST {
                notes.problems.push(Note::of_error(error));
            }
            if let Some(path) = error.path().filter(|path| path.is_absolute() && !error.keeps_entry()) {
                notes.skip(path);
            }
        }
        self.inner.problem(error);
    }

    fn damage(&self, damage: &Damage<'_>) {
        {
            let mut notes = lock(&self.notes);
            if notes.damage.len() < MOST {
                notes.damage.push(Note::of_damage(damage));
            }
        }
        self.inner.damage(damage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Recording;

    #[test]
    fn the_first_problems_are_kept_and_all_are_counted_and_passed_on() {
        let recording = Recording::default();
        let noting = Noting::new(&recording);
        for number in 0..250 {
            noting.problem(&Error::failed("do").at(format!("/a\n{number}")));
        }
        let notes = noting.finish();
        assert_eq!((notes.count, notes.problems.len(), lock(&recording.problems).len()), (250, MOST, 250));
        assert_eq!(notes.problems[7], Note::new("failed", "cannot do '/a\\n7'"));
    }

    #[test]
    fn a_repeated_problem_counts_once() {
        let recording = Recording::default();
        let noting = Noting::once(&recording);
        (0..5).for_each(|_| noting.problem(&Error::failed("do").at("/a")));
        noting.problem(&Error::failed("do").at("/b"));
        assert_eq!((noting.finish().count, lock(&recording.problems).len()), (2, 2));
    }
}
