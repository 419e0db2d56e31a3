//! `pleach probe PATH`.

use super::outcome::{Ended, status};
use crate::error::Result;
use crate::probe;
use crate::program::cli;
use crate::program::output::{self, Output, progress};

pub(crate) fn run(args: &cli::Probe, output: &Output) -> Result<Ended> {
    let stats = progress::unseen(output, |monitor| probe::probe(&args.path, monitor))?;
    let bench = match args.bench {
        true => Some(progress::watch(output, |monitor| probe::bench::bench(&args.path, monitor))?),
        false => None,
    };
    output::probe::show(output, &stats, bench.as_ref());
    Ok(Ended::Listed(status(stats.open)))
}
