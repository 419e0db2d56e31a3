//! `pleach du PATH...`.

use super::outcome::status;
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, du, progress};
use crate::tree::estimate::Scope;
use crate::usage::{Options, measure};

pub(crate) fn run(args: &cli::Du, globals: &Globals, output: &Output) -> Result<ExitStatus> {
    let options = Options { sync: !args.no_sync, threads: globals.threads };
    let scope = Scope { paths: &args.paths, one_file_system: false, skip: None, counts: false };
    let stats = progress::watch_estimated(output, Some(scope), |monitor| measure(&args.paths, &options, monitor))?;
    du::show(output, &stats);
    Ok(if stats.rows.is_empty() { ExitStatus::Failed } else { status(stats.errors) })
}
