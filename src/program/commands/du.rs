//! `pleach du PATH...` and `pleach du --snapshots REPO [ID...]`.

use super::id::as_id;
use super::outcome::{Ended, status};
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, du, progress};
use crate::snapshot;
use crate::tree::estimate::Scope;
use crate::usage::{Options, measure};
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &cli::Du, globals: &Globals, output: &Output) -> Result<Ended> {
    let options = Options { sync: !args.no_sync, threads: globals.threads };
    if let Some((repo, ids)) = args.repo_and_ids() {
        let Options { sync, threads } = options;
        let options = snapshot::du::Options { sync, threads, measure_again: args.measure_again };
        return run_on_snapshots(repo, ids, &options, output);
    }
    let scope = Scope { paths: &args.paths, one_file_system: false, skip: None, counts: false };
    let stats = progress::watch_estimated(output, Some(scope), |monitor| measure(&args.paths, &options, monitor))?;
    du::show(output, &stats);
    let status = if stats.rows.is_empty() { ExitStatus::Failed } else { status(stats.errors) };
    Ok(Ended::Listed(status))
}

fn run_on_snapshots(repo: &Path, ids: &[PathBuf], options: &snapshot::du::Options, output: &Output) -> Result<Ended> {
    let ids = ids.iter().map(|id| as_id(id.as_os_str())).collect::<Result<Vec<_>>>()?;
    let stats = progress::watch(output, |monitor| snapshot::du::du(repo, &ids, options, monitor))?;
    du::show_snapshots(output, &stats, repo);
    Ok(Ended::Listed(status(stats.errors)))
}
