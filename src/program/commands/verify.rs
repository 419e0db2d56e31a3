//! `pleach verify REPO [ID...]`.

use super::outcome::{is_unread, reported, status};
use crate::error::{Error, Result};
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, progress, verify};
use crate::snapshot::verify::{Options, RepairFrom, verify};
use std::path::PathBuf;

pub(crate) fn run(args: &cli::Verify, globals: &Globals, output: &Output) -> Result<ExitStatus> {
    let (repo, ids) = args.repo_and_ids();
    let text = |id: &PathBuf| {
        let unknown = || Error::usage("look for a snapshot called").at(id).hint("names are UTF-8");
        id.to_str().map(String::from).ok_or_else(unknown)
    };
    let ids = ids.iter().map(text).collect::<Result<Vec<_>>>()?;
    let repair_from = match &args.repair_from {
        Some(path) if cli::is_path(path) => Some(RepairFrom::Directory(path.clone())),
        Some(id) => Some(RepairFrom::Snapshot(text(id)?)),
        None => None,
    };
    let options =
        Options { quick: args.quick, read: args.read, sharing: args.sharing, repair_from, threads: globals.threads };
    let stats = match progress::watch(output, |monitor| verify(repo, &ids, &options, monitor)) {
        Ok(stats) => stats,
        // Nobody reads the output any more, or the work had not begun.
        Err(stopped) if is_unread(&stopped.error, output) || stopped.stats.is_none() => return Err(stopped.error),
        Err(stopped) => {
            let status = verify::show_stopped(output, stopped, &options);
            return Ok(reported(output, status));
        }
    };
    verify::show(output, &stats, &options, repo);
    let status = if stats.damaged > stats.repaired { ExitStatus::Damage } else { status(stats.errors) };
    Ok(reported(output, status))
}
