//! A monitor that passes everything on, and keeps the first problems and damage for a record.

use super::skipped::Subtrees;
use crate::error::Error;
use crate::monitor::{Amount, Change, Damage, Event, MOST, Monitor, Note, Repaired};
use crate::util::mutex::{self, lock};
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;

/// How many different problems are recognized when they are reported again.
const RECOGNIZED: usize = 100_000;
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
    seen: Option<Mutex<HashSet<u64>>>,
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
        let Some(seen) = &self.seen else { return false };
        let mut hasher = DefaultHasher::new();
        (error.code(), error.to_string()).hash(&mut hasher);
        let (mut seen, hash) = (lock(seen), hasher.finish());
        if seen.len() < RECOGNIZED { !seen.insert(hash) } else { seen.contains(&hash) }
    }
}

impl Monitor for Noting<'_> {
    fn phase(&self, name: &str, expected: Option<Amount>) {
        self.inner.phase(name, expected);
    }

    fn advance(&self, done: Amount) {
        self.inner.advance(done);
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

    fn event(&self, event: Event<'_>) {
        self.inner.event(event);
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

    fn repaired(&self, repaired: &Repaired<'_>) {
        self.inner.repaired(repaired);
    }

    fn planned(&self, change: Change, path: &Path) {
        self.inner.planned(change, path);
    }

    fn sharing(&self, source: &Path, path: &Path, bytes: u64) {
        self.inner.sharing(source, path, bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled()
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
