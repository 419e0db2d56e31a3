//! `pleach log REPO PATH`.

use super::outcome::{Ended, status};
use crate::error::Result;
use crate::program::cli;
use crate::program::output::{Output, log as table, progress};
use crate::snapshot::log::{Options, log};

pub(crate) fn run(args: &cli::Log, output: &Output) -> Result<Ended> {
    let (repo, path) = args.repo_and_path();
    let stats = progress::watch(output, |monitor| log(repo, path, &Options::default(), monitor))?;
    table::show(output, &stats);
    Ok(Ended::Listed(status(stats.errors)))
}
