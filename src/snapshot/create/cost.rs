//! The cost of a snapshot: the disk space that it took, and whether there is a cheaper way.

use super::options::{Options, Unchanged};
use super::stats::Stats;
use crate::content::copy::Reason;
use crate::fs::filesystem::{Filesystem, Kind};
use crate::snapshot::repository::{self, Added, Repository, Space};

/// From this size on, the metadata of unchanged files is worth a suggestion.
const CONSIDERABLE: u64 = 16 << 20;

/// Adds the space that a published snapshot took to its stats, and notes it in the repository.
///
/// The run wrote the data. The metadata is the rest of the space that the filesystem lost during the run. If the tree
/// is based on the last one, none of it is for unchanged files.
pub(super) fn measure(
    stats: Stats,
    repository: &Repository,
    (before, filesystem): (Option<Space>, Filesystem),
    is_based: bool,
    options: &Options,
) -> Stats {
    let (Some(before), Some(after)) = (before, repository::space(repository.fd())) else { return stats };
    let grown = after.used.saturating_sub(before.used);
    let written = stats.copied_bytes.saturating_add(stats.rounding_bytes);
    // Compression may have made the data smaller.
    let written = if filesystem.kind == Kind::Btrfs { written.min(grown) } else { written };
    let mut added = Added {
        // Data that killed runs wrote was on the disk before this run began.
        data_bytes: written.saturating_add(stats.resumed_bytes),
        metadata_bytes: grown.saturating_sub(written),
        suggested: false,
    };
    added.suggested = !is_based && is_wasteful(&stats, &added, options) && !was_suggested(repository);
    repository::note_added(repository, &stats.name, &added);
    Stats { added: Some(added), free_bytes: after.free, ..stats }
}

/// Whether hard links for unchanged files would have saved much.
fn is_wasteful(stats: &Stats, added: &Added, options: &Options) -> bool {
    let is_copied = stats.reasons.get(&Reason::NoReflink).is_some_and(|bytes| *bytes > 0);
    let is_heavy = added.metadata_bytes >= CONSIDERABLE && added.metadata_bytes > added.data_bytes;
    options.unchanged == Unchanged::Clone
        && stats.unchanged_files > stats.new_files.saturating_add(stats.changed_files)
        && (is_copied || is_heavy)
}

/// Whether the run of an existing snapshot already suggested it.
fn was_suggested(repository: &Repository) -> bool {
    let names = repository.snapshot_names().unwrap_or_default();
    names.iter().any(|name| repository::added(repository, name).is_some_and(|added| added.suggested))
}
