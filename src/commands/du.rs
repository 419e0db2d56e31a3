//! `pleach du PATH...`.

use super::outcome::status;
use crate::cli::{self, Globals};
use crate::output::{Output, du, progress};
use pleach::error::{ExitStatus, Result};
use pleach::tree::estimate::Scope;
use pleach::usage::{Options, measure};

pub(crate) fn run(args: &cli::Du, globals: &Globals, output: &Output) -> Result<ExitStatus> {
    let options = Options { sync: !args.no_sync, threads: globals.threads };
    let scope = Scope { paths: &args.paths, one_file_system: false, skip: None, counts: false };
    let stats = progress::watch_estimated(output, Some(scope), |monitor| measure(&args.paths, &options, monitor))?;
    du::show(output, &stats);
    Ok(if stats.rows.is_empty() { ExitStatus::Failed } else { status(stats.errors) })
}
