//! `pleach probe PATH`.

use super::outcome::status;
use crate::cli;
use crate::output::{self, Output, progress};
use pleach::error::{ExitStatus, Result};
use pleach::probe;

pub(crate) fn run(args: &cli::Probe, output: &Output) -> Result<ExitStatus> {
    let stats = progress::unseen(output, |monitor| probe::probe(&args.path, monitor))?;
    let bench = match args.bench {
        true => Some(progress::watch(output, |monitor| probe::bench::bench(&args.path, monitor))?),
        false => None,
    };
    output::probe::show(output, &stats, bench.as_ref());
    Ok(status(stats.open))
}
