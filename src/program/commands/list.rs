//! `pleach list REPO`.

use super::outcome::status;
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, list, progress};
use crate::snapshot::list::{Options, list};

pub(crate) fn run(args: &cli::List, globals: &Globals, output: &Output) -> Result<ExitStatus> {
    let options = Options { exclusive: args.exclusive, threads: globals.threads };
    let stats = progress::watch(output, |monitor| list(&args.repo, &options, monitor))?;
    list::show(output, &stats, &args.repo);
    Ok(status(stats.errors))
}
