//! `pleach verify REPO [ID...]`.

use super::id::as_id;
use super::outcome::{Ended, UNCHANGED, is_unread, status};
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, progress, verify};
use crate::snapshot::verify::{Options, RepairFrom, Stats, Stopped, verify};
use std::path::Path;

/// The state of the disk after an interruption, in words. Not for a repair.
pub(super) const INTERRUPTED: &str = UNCHANGED;

pub(crate) fn run(args: &cli::Verify, globals: &Globals, output: &Output) -> Result<Ended> {
    let (repo, ids) = args.repo_and_ids();
    let ids = ids.iter().map(|id| as_id(id).map(String::from)).collect::<Result<Vec<_>>>()?;
    let repair_from = match &args.repair_from {
        Some(path) if cli::is_path(path) => Some(RepairFrom::Directory(path.clone())),
        Some(id) => Some(RepairFrom::Snapshot(as_id(id)?.into())),
        None => None,
    };
    let options =
        Options { quick: args.quick, read: args.read, sharing: args.sharing, repair_from, threads: globals.threads };
    let (_, status) = check(repo, &ids, &options, output)?;
    Ok(Ended::Worked(status))
}

/// Verifies the snapshots `ids`, or all of them, and prints the result. A verification that ended early with a result
/// prints its reason as well. If the damage cannot be written any more, it stops, unless it repairs.
pub(super) fn check(repo: &Path, ids: &[String], options: &Options, output: &Output) -> Result<(Stats, ExitStatus)> {
    if options.repair_from.is_none() {
        output.stop_if_unread();
    }
    match progress::watch(output, |monitor| verify(repo, ids, options, monitor)) {
        Ok(stats) => {
            verify::show(output, &stats, options, repo);
            let status = found(&stats);
            Ok((stats, status))
        }
        Err(Stopped { error, stats }) if is_unread(&error, output) => {
            let stats = stats.map(|stats| *stats).unwrap_or_default();
            verify::show_unread(output, &stats);
            // The rest was not verified.
            let status = found(&stats).worse(ExitStatus::Incomplete);
            Ok((stats, status))
        }
        Err(Stopped { error, stats: Some(mut stats) }) => {
            // Why it ended.
            stats.errors += 1;
            let status = verify::show_stopped(output, &error, &stats, options);
            Ok((*stats, status))
        }
        // The work had not begun.
        Err(stopped) => Err(stopped.error),
    }
}

/// The status for the damage and the errors that were found.
fn found(stats: &Stats) -> ExitStatus {
    if stats.damaged > stats.repaired { ExitStatus::Damage } else { status(stats.errors) }
}
