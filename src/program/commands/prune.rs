//! `pleach prune REPO` and `pleach remove REPO ID...`.

use super::id::as_id;
use super::outcome::{Ended, counted, state, status_of};
use super::time_zone::names_time_zone;
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, progress, prune as show};
use crate::snapshot::prune::{Options, Stats, Stopped, prune};
use crate::snapshot::remove::{self, remove};
use std::path::Path;

/// The state of the disk after an interruption, in words.
pub(super) const INTERRUPTED: &str = "each snapshot exists complete or not at all; the next run finishes deleting";

pub(crate) fn run(args: &cli::Prune, globals: &Globals, output: &Output) -> Result<Ended> {
    let cli::Prune { keep, dry_run, no_wait, .. } = args;
    let (dry_run, no_wait, threads) = (*dry_run, *no_wait, globals.threads);
    let options = Options { keep: keep.keep(), dry_run, no_wait, threads, ..Options::default() };
    let (_, status) = rotate(&args.repo, options, output)?;
    Ok(Ended::Worked(status))
}

/// Removes the snapshots that no rule keeps, and prints the result.
pub(super) fn rotate(repo: &Path, mut options: Options, output: &Output) -> Result<(Stats, ExitStatus)> {
    options.require_local_time = names_time_zone();
    let result = progress::watch(output, |monitor| prune(repo, &options, monitor));
    shown("prune", result, options.dry_run, output)
}

/// Prints the result of a removal. One that ended early after it had begun prints its reason as well.
fn shown(
    command: &'static str,
    result: Result<Stats, Stopped>,
    is_dry_run: bool,
    output: &Output,
) -> Result<(Stats, ExitStatus)> {
    let (stats, error) = counted(result, |stats| &mut stats.errors, state(INTERRUPTED, is_dry_run), output)?;
    show::show(output, command, &stats, is_dry_run, error.as_ref());
    let status = status_of(error.as_ref(), stats.errors);
    Ok((stats, status))
}

pub(crate) fn run_remove(args: &cli::Remove, globals: &Globals, output: &Output) -> Result<Ended> {
    let (repo, ids) = args.repo_and_ids();
    let ids = ids.iter().map(|id| as_id(id)).collect::<Result<Vec<_>>>()?;
    let options = remove::Options { dry_run: args.dry_run, no_wait: args.no_wait, threads: globals.threads };
    let result = progress::watch(output, |monitor| remove(repo, &ids, &options, monitor));
    let (_, status) = shown("remove", result, args.dry_run, output)?;
    Ok(Ended::Worked(status))
}
