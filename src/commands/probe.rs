//! `pleach probe PATH`.

use crate::cli;
use crate::output::{self, Output, progress};
use pleach::error::{ExitStatus, Result};
use pleach::probe;

pub(crate) fn run(args: &cli::Probe, output: &Output) -> Result<ExitStatus> {
    let stats = progress::unseen(output, |monitor| probe::probe(&args.path, monitor))?;
    output::probe::show(output, &stats);
    Ok(super::status(stats.open))
}
