//! Records the result of a verification in the repository, for `report`.

use super::options::Options;
use super::stats::Stats;
use crate::snapshot::manifest::Time;
use crate::snapshot::recording_monitor::{Notes, Noting};
use crate::snapshot::repository::{self, Repository, Verification};

/// Records a verification that ran to its end.
pub(super) fn record(repository: &Repository, is_all: bool, options: &Options, stats: &Stats, noting: Noting<'_>) {
    let Notes { problems, damage, .. } = noting.finish();
    let percent = if options.quick { 0.0 } else { options.read.unwrap_or(100.0) };
    let verification = Verification {
        ended: Time::now(),
        is_all,
        percent,
        snapshots: stats.rows.len() as u64,
        files: stats.files,
        checked_bytes: stats.checked_bytes,
        damaged: stats.damaged,
        repaired: stats.repaired,
        errors: stats.errors,
        first_damage: damage,
        first_problems: problems,
    };
    repository::note_verification(repository, &verification);
}
