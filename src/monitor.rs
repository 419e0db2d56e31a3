//! How engines report: they call a [`Monitor`] and never print.
//!
//! The terminal version is in `output`. [`Silent`] is for callers that want only the stats, and [`Recording`] is for
//! tests.

pub(crate) mod attempts;
mod damage;
mod event;
mod note;
mod reason;
mod reported;

use crate::error::Error;
use crate::util::mutex::lock;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub use damage::{Damage, Fault, Repaired};
pub use event::{Event, WholeWalk};
pub(crate) use note::MOST;
pub use note::Note;
pub use reason::{CacheFault, EngineRefusal, Pinned, Skip};
pub(crate) use reported::Reported;

/// An amount of work, done or expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Files, directories, links: entries of any type.
    pub files: u64,
    /// Bytes of content.
    pub bytes: u64,
}

/// How an entry of a tree differs from its earlier version. Each difference has a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The entry is new.
    Added,
    /// The entry no longer exists.
    Removed,
    /// The content differs.
    Content,
    /// Only the metadata differs.
    Metadata,
    /// The type differs.
    Type,
    /// The path differs.
    Renamed,
    /// The content differs, although size and times are equal.
    Rotten,
    /// The later version is unknown: it was skipped with an error.
    Unreadable,
}

impl Change {
    /// The letter in listings of the command line.
    pub(crate) fn letter(self) -> char {
        match self {
            Change::Added => '+',
            Change::Removed => '-',
            Change::Content => 'M',
            Change::Metadata => 'U',
            Change::Type => 'T',
            Change::Renamed => 'R',
            Change::Rotten => '?',
            Change::Unreadable => '!',
        }
    }
}

/// Receives the progress and the events of an engine. Engines call it from many threads at once.
///
/// A report that a monitor does not handle goes to its [`inner`](Monitor::inner) monitor, if it has one.
pub trait Monitor: Sync {
    /// Another monitor, for all reports that this one does not handle.
    fn inner(&self) -> Option<&dyn Monitor> {
        None
    }

    /// A new part of the work starts. Its name is a participle ("cloning"). `expected` is its amount, if known.
    fn phase(&self, name: &str, expected: Option<Amount>) {
        if let Some(inner) = self.inner() {
            inner.phase(name, expected);
        }
    }

    /// More of the current phase is done.
    fn advance(&self, done: Amount) {
        if let Some(inner) = self.inner() {
            inner.advance(done);
        }
    }

    /// One entry failed and was skipped. The run continues and counts it.
    fn problem(&self, error: &Error) {
        if let Some(inner) = self.inner() {
            inner.problem(error);
        }
    }

    /// Something happened that is not a failure.
    fn event(&self, event: Event<'_>) {
        if let Some(inner) = self.inner() {
            inner.event(event);
        }
    }

    /// Damage of a snapshot was found: a result, one for each snapshot and path.
    fn damage(&self, damage: &Damage<'_>) {
        if let Some(inner) = self.inner() {
            inner.damage(damage);
        }
    }

    /// A damaged entry of a snapshot was repaired.
    fn repaired(&self, repaired: &Repaired<'_>) {
        if let Some(inner) = self.inner() {
            inner.repaired(repaired);
        }
    }

    /// A line of the plan (`--dry-run`), in the order of the tree.
    fn planned(&self, change: Change, path: &Path) {
        if let Some(inner) = self.inner() {
            inner.planned(change, path);
        }
    }

    /// A line of the plan of a dedupe (`--dry-run`): this many bytes of `path` would share `source`'s extents.
    fn sharing(&self, source: &Path, path: &Path, bytes: u64) {
        if let Some(inner) = self.inner() {
            inner.sharing(source, path, bytes);
        }
    }

    /// Whether the run should stop. Engines ask between files and during long copies.
    fn is_cancelled(&self) -> bool {
        self.inner().is_some_and(Monitor::is_cancelled)
    }
}

/// Ignores all reports and never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Monitor for Silent {}

/// Keeps all reports, for tests.
#[derive(Debug, Default)]
pub struct Recording {
    /// The problems, as shown to a user.
    pub problems: Mutex<Vec<String>>,
    /// The events, as `Debug` shows them.
    pub events: Mutex<Vec<String>>,
    /// The damage: snapshot, path, fault.
    pub damage: Mutex<Vec<(String, PathBuf, Fault)>>,
    /// The repairs: snapshot, path, where its content is from.
    pub repaired: Mutex<Vec<(String, PathBuf, PathBuf)>>,
    /// The plan.
    pub plan: Mutex<Vec<(Change, PathBuf)>>,
}

impl Monitor for Recording {
    fn problem(&self, error: &Error) {
        push(&self.problems, error.to_string());
    }

    fn event(&self, event: Event<'_>) {
        push(&self.events, format!("{event:?}"));
    }

    fn damage(&self, damage: &Damage<'_>) {
        push(&self.damage, (damage.snapshot.to_string(), damage.path.to_path_buf(), damage.why));
    }

    fn repaired(&self, repaired: &Repaired<'_>) {
        let Repaired { snapshot, path, from } = *repaired;
        push(&self.repaired, (snapshot.to_string(), path.to_path_buf(), from.to_path_buf()));
    }

    fn planned(&self, change: Change, path: &Path) {
        push(&self.plan, (change, path.to_path_buf()));
    }
}

fn push<T>(list: &Mutex<Vec<T>>, item: T) {
    lock(list).push(item);
}
