//! The result of restoring one entry: its counts, and reports on metadata that the target did not take. A copy reports
//! such metadata once for each kind; here each entry that is not as in the snapshot is an error.

use super::context::Context;
use super::place::Place;
use super::stats::Stats;
use crate::error::{Advice, Error};
use crate::fs::metadata;
use crate::monitor::{Amount, Change};
use crate::snapshot::manifest::{Body, Entry};
use crate::tree::writer::{Failure, Target as _};
use rustix::io::Errno;
use std::path::PathBuf;

/// The result of restoring an entry.
pub(super) struct Outcome {
    /// Its share in the counts.
    pub(super) stats: Stats,
    /// The line of the plan.
    pub(super) change: Option<Change>,
    /// The inode that has its name now, if the inode may have other names. In a dry run, only if the existing inode
    /// stays.
    pub(super) inode: Option<(u64, u64)>,
    /// Whether its data may not be on the disk yet.
    pub(super) is_waiting: bool,
}

/// An entry's share in the counts, whatever happens to it.
pub(super) fn count(entry: &Entry) -> Stats {
    let mut stats = Stats::default();
    match &entry.body {
        Body::File(file) => {
            stats.files = 1;
            stats.bytes = file.size;
        }
        Body::Symlink(_) => stats.symlinks = 1,
        _ => stats.others = 1,
    }
    stats
}

/// Reports the metadata of an inode that the target could not take, and counts it.
pub(super) fn report(context: &Context<'_>, refused: &metadata::Refused, shown: impl FnOnce() -> PathBuf) -> u64 {
    refused.error("restore").map_or(0, |error| {
        context.monitor.problem(&error.at(shown()));
        1
    })
}

/// Reports the parts of its seal that the target refused for an inode, and counts it.
pub(super) fn report_seal(
    context: &Context<'_>,
    fileattr: metadata::RefusedAttr,
    shown: impl FnOnce() -> PathBuf,
) -> u64 {
    report(context, &metadata::Refused { fileattr, ..metadata::Refused::default() }, shown)
}

/// The failure of an entry that has a directory in its place.
pub(super) fn blocked(context: &Context<'_>, place: &Place, entry: &Entry) -> Failure {
    let error = Error::io("restore", context.shown(&place.join(&entry.name)), Errno::ISDIR);
    Failure::Entry(error.hint("a directory is in its place").advise(Advice::DeleteOthers))
}

/// Progress of one entry.
pub(super) fn advance(context: &Context<'_>, stats: &Stats) {
    context.monitor.advance(Amount { files: 1, bytes: stats.bytes });
}
