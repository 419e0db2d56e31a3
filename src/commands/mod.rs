//! The commands, one a file: arguments to options, the engine, its result to the output.

mod completions;
mod copy;
mod dedupe;
mod du;
mod excludes;
mod fiemap;
mod list;
mod owners;
mod probe;
mod put;
mod restore;
mod snapshot;
mod views;

use crate::cli::{self, Cli, Command, Globals};
use crate::output::{Output, Settings, When};
use pleach::error::{ErrorKind, ExitStatus, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs the command and returns the status to exit with. `cancel` is set when the user asks to stop.
pub(crate) fn run(cli: Cli, cancel: Arc<AtomicBool>) -> ExitStatus {
    let output = Output::new(settings(&cli.globals), cancel);
    let result = match &cli.command {
        Command::Snapshot(args) => snapshot::run(args, &cli.globals, &output),
        Command::List(args) => list::run(args, &cli.globals, &output),
        Command::Restore(args) => restore::run(args, &cli.globals, &output),
        Command::Copy(args) => copy::run(args, &cli.globals, &output),
        Command::Put(args) => put::run(args, &cli.globals, &output),
        Command::Dedupe(args) => dedupe::run(args, &cli.globals, &output),
        Command::Fiemap(args) => fiemap::run(args, &output),
        Command::Probe(args) => probe::run(args, &output),
        Command::Du(args) => du::run(args, &cli.globals, &output),
        Command::Completions(args) => completions::run(args, &output),
    };
    conclude(result, &output)
}

fn conclude(result: Result<ExitStatus>, output: &Output) -> ExitStatus {
    let written = output.finish();
    let result = match result {
        // An engine also stops when nobody takes its lines any more: that is no interruption by the user.
        Err(error) if error.kind() == ErrorKind::Interrupted && !output.is_interrupted() => Ok(ExitStatus::Done),
        other => other,
    };
    match result.and_then(|status| written.map(|()| status)) {
        Ok(status) => status,
        Err(error) => {
            output.error(&error);
            error.exit_status()
        }
    }
}

/// The status of work of which `errors` parts were left out.
fn status(errors: u64) -> ExitStatus {
    if errors == 0 { ExitStatus::Done } else { ExitStatus::Incomplete }
}

/// The status of work that is done, whatever becomes of the words about it.
fn told(output: &Output, status: ExitStatus) -> ExitStatus {
    match output.finish() {
        Ok(()) => status,
        Err(error) => {
            output.error(&error);
            ExitStatus::Incomplete
        }
    }
}

fn settings(globals: &Globals) -> Settings {
    Settings {
        json: globals.json,
        quiet: globals.quiet,
        verbose: globals.verbose,
        progress: when(globals.progress),
        colours: when(globals.color),
    }
}

fn when(when: cli::When) -> When {
    match when {
        cli::When::Auto => When::Auto,
        cli::When::Always => When::Always,
        cli::When::Never => When::Never,
    }
}
