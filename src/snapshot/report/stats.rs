//! The results of a report.

use crate::extents::picture::Sketch;
use crate::extents::sharing::Sharing;
use crate::monitor::Note;
use crate::snapshot::du::Freed;
use crate::snapshot::manifest::Time;
use crate::snapshot::prune::{self, Local};
use crate::snapshot::repository::{self, Added, Problems, Verification};
use crate::usage::Bound;
use std::path::PathBuf;

/// A report on a repository.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The path of the repository, as it was given.
    pub path: PathBuf,
    /// When the report was made.
    pub created: Time,
    /// The same in the time zone of the report.
    pub local: Local,
    /// The name of the time zone.
    pub time_zone: String,
    /// The space of the repository's filesystem, if it is known.
    pub space: Option<Space>,
    /// The snapshots, oldest first.
    pub snapshots: Vec<Row>,
    /// The names of snapshots with a manifest that cannot be read.
    pub unlisted: Vec<String>,
    /// The snapshots of one machine and one set of sources. The group of the newest snapshot is the first.
    pub groups: Vec<Group>,
    /// What pruning would free; `None` if it was not measured, or there are no snapshots.
    pub pruning: Option<Pruning>,
    /// What changed most.
    pub changes: Changes,
    /// The largest files of the newest snapshots of all groups, the largest first.
    pub files: Vec<LargeFile>,
    /// The last verification, if its result was recorded.
    pub verification: Option<Verification>,
    /// When that was, in the time zone of the report.
    pub verified: Option<Local>,
    /// The first problems of this report.
    pub problems: Vec<Note>,
    /// All problems of this report; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// The space of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that are free for this user.
    pub free_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

impl From<repository::Space> for Space {
    fn from(space: repository::Space) -> Self {
        let repository::Space { used, free, total } = space;
        Space { used_bytes: used, free_bytes: free, total_bytes: total }
    }
}

/// A snapshot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The time when it was begun.
    pub created: Time,
    /// The same in the time zone of the report.
    pub local: Local,
    /// The index of its group.
    pub group: usize,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether it is pinned.
    pub pinned: bool,
    /// Regular files.
    pub files: u64,
    /// The sizes of its files.
    pub bytes: u64,
    /// The space that it added on the disk, if that was recorded.
    pub added: Option<Added>,
    /// Entries that its run skipped.
    pub errors: u64,
    /// The problems of its run, if they were recorded.
    pub problems: Option<Problems>,
    /// The space that removing it alone would free, if it was measured.
    pub freed: Option<Freed>,
    /// Why a prune would keep it. Empty: it would be removed. `None`: not determined.
    pub kept: Option<Vec<prune::Reason>>,
}

/// Snapshots of one machine and one set of sources.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// The machine's name.
    pub host: String,
    /// The absolute paths of the sources, sorted.
    pub sources: Vec<PathBuf>,
    /// The indexes of its snapshots, oldest first.
    pub snapshots: Vec<usize>,
}

/// What a prune would do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pruning {
    /// Whether the rules were given. Otherwise it keeps only the last of each group.
    pub is_given: bool,
    /// The number of snapshots that would stay.
    pub kept: u64,
    /// The number of snapshots that would be removed.
    pub removed: u64,
    /// How exact that number is.
    pub removed_bound: Bound,
    /// The space that would be freed.
    pub freed: prune::Freed,
}

/// What changed between the snapshots of each group, from one to the next.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Changes {
    /// How many pairs of snapshots were compared.
    pub compared: u64,
    /// How many older pairs were not compared.
    pub omitted: u64,
    /// The oldest snapshot that was compared.
    pub since: Option<String>,
    /// The paths with the most new data, the largest first.
    pub new: Vec<PathChange>,
    /// The paths with the most removed data, the largest first.
    pub removed: Vec<PathChange>,
}

/// The changes of one path in all compared pairs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathChange {
    /// The absolute path, as in the sources.
    pub path: PathBuf,
    /// Data that the older snapshot of the pair does not hold in this file, counted from extents; for a removed path,
    /// the size that it had.
    pub bytes: u64,
    /// How exact that is.
    pub bound: Bound,
    /// In how many pairs it was added.
    pub added: u64,
    /// In how many pairs its content changed.
    pub changed: u64,
    /// In how many pairs it was removed.
    pub removed: u64,
    /// The newest snapshot with such a change.
    pub last: String,
}

/// A large file, and its versions.
#[derive(Debug)]
#[non_exhaustive]
pub struct LargeFile {
    /// The absolute path, as in the sources.
    pub path: PathBuf,
    /// Its size in the newest snapshot that has it.
    pub size: u64,
    /// That snapshot.
    pub snapshot: String,
    /// How many versions with different content all snapshots have.
    pub all_versions: u64,
    /// Some of them, oldest first: the newest ones, and the oldest.
    pub versions: Vec<Version>,
    /// The sharing of these versions, in their order.
    pub(crate) sharing: Sharing,
    /// Their extents, for a picture.
    pub(crate) sketch: Sketch,
    /// Their paths in the repository.
    pub(crate) paths: Vec<PathBuf>,
}

/// A version of a large file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Version {
    /// The oldest snapshot that has it.
    pub first: String,
    /// The newest snapshot that has it.
    pub last: String,
    /// How many snapshots have it.
    pub snapshots: u64,
    /// Its size.
    pub size: u64,
    /// The data that it shares with the version before in this list; `None` for the first one.
    pub shared_bytes: Option<u64>,
    /// How exact that is.
    pub shared_bound: Bound,
}
