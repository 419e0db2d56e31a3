//! `pleach list REPO`.

use super::outcome::{Ended, status};
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::output::{Output, list, progress};
use crate::snapshot::list::{Options, list};

pub(crate) fn run(args: &cli::List, globals: &Globals, output: &Output) -> Result<Ended> {
    let options = Options { exclusive: args.exclusive, threads: globals.threads };
    let stats = progress::watch(output, |monitor| list(&args.repo, &options, monitor))?;
    list::show(output, &stats, &args.repo);
    Ok(Ended::Listed(status(stats.errors)))
}
