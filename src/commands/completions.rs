//! `pleach completions SHELL`.

use crate::cli::{Cli, Completions};
use crate::output::Output;
use clap::CommandFactory as _;
use pleach::error::{ExitStatus, Result};

pub(crate) fn run(args: &Completions, output: &Output) -> Result<ExitStatus> {
    // By way of memory: the generator panics when a pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pleach", &mut script);
    output.text(&script);
    Ok(ExitStatus::Done)
}
