//! The commands, one per file: each turns arguments into options, runs the engine and passes its result to the output.

mod adopt;
mod cat;
mod completions;
mod copy;
mod dedupe;
mod diff;
mod du;
mod excludes;
mod fiemap;
mod find;
mod id;
mod init_profile;
mod list;
mod log;
mod man;
#[cfg(feature = "offsite")]
mod offsite;
mod outcome;
mod owners;
mod patch;
mod probe;
mod prune;
mod put;
mod replicate;
mod report;
mod restore;
mod run;
mod snapshot;
mod standard_input;
mod tag;
mod time_zone;
mod verify;
mod views;
pub(crate) mod words;

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::program::cli::{self, Cli, Command, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, Settings, When};
use outcome::{Ended, UNCHANGED};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs the command and returns the status to exit with. `cancel` is set when the user asks to stop.
pub(crate) fn run(cli: Cli, cancel: Arc<AtomicBool>) -> ExitStatus {
    let output = Output::new(settings(&cli.globals), cancel);
    let result = match &cli.command {
        Command::Snapshot(args) => snapshot::run(args, &cli.globals, &output),
        Command::Adopt(args) => adopt::run(args, &cli.globals, &output),
        Command::List(args) => list::run(args, &cli.globals, &output),
        Command::Diff(args) => diff::run(args, &cli.globals, &output),
        Command::Log(args) => log::run(args, &output),
        Command::Cat(args) => cat::run(args, &output),
        Command::Find(args) => find::run(args, &output),
        Command::Restore(args) => restore::run(args, &cli.globals, &output),
        Command::Prune(args) => prune::run(args, &cli.globals, &output),
        Command::Remove(args) => prune::run_remove(args, &cli.globals, &output),
        Command::Tag(args) => tag::run(args, &output),
        Command::Pin(args) => tag::run_pin(args, true, &output),
        Command::Unpin(args) => tag::run_pin(args, false, &output),
        Command::Verify(args) => verify::run(args, &cli.globals, &output),
        Command::Replicate(args) => replicate::run(args, &cli.globals, &output),
        Command::Send(args) => replicate::run_send(args, &cli.globals, &output),
        Command::Receive(args) => replicate::run_receive(args, &cli.globals, &output),
        #[cfg(feature = "offsite")]
        Command::Offsite(args) => offsite::run(args, &cli.globals, &output),
        Command::Report(args) => report::run(args, &cli.globals, &output),
        Command::Run(args) => run::run(args, &cli.globals, &output),
        Command::InitProfile(args) => init_profile::run(args, &output),
        Command::Copy(args) => copy::run(args, &cli.globals, &output),
        Command::Put(args) => put::run(args, &cli.globals, &output),
        Command::Dedupe(args) => dedupe::run(args, &cli.globals, &output),
        Command::Fiemap(args) => fiemap::run(args, &output),
        Command::Probe(args) => probe::run(args, &output),
        Command::Du(args) => du::run(args, &cli.globals, &output),
        Command::Completions(args) => completions::run(args, &output),
        Command::Man(args) => man::run(args, &output),
    };
    let advised = |error| repository_first(after_interruption(error, &cli), &cli.command);
    let planned = |ended: Ended| if cli.is_dry_run { ended.planned() } else { ended };
    conclude(result.map(planned).map_err(advised), &output)
}

/// Corrects the advice if the first word is a snapshot and the second the repository.
fn repository_first(error: Error, command: &Command) -> Error {
    let Command::Restore(args) = command else { return error };
    let (repo, id, _) = args.repo_id_and_paths();
    let is_swapped = error.code() == "no-repository" && !cli::is_path(&repo) && cli::is_path(&id);
    if is_swapped { error.advise(Advice::RepositoryFirst) } else { error }
}

/// Adds the state of the disk to an interruption, if the command left nothing half done.
fn after_interruption(error: Error, cli: &Cli) -> Error {
    let state = match &cli.command {
        _ if error.kind() != ErrorKind::Interrupted => return error,
        _ if cli.is_dry_run => UNCHANGED,
        Command::Diff(_) | Command::Log(_) | Command::Cat(_) | Command::Find(_) | Command::Report(_) => UNCHANGED,
        Command::List(_) | Command::Fiemap(_) | Command::Probe(_) | Command::Du(_) => UNCHANGED,
        // An engine that had begun adds its own hint about what it had done.
        Command::Copy(_) | Command::Restore(_) | Command::Verify(_) => UNCHANGED,
        Command::Prune(_) | Command::Remove(_) => prune::INTERRUPTED,
        Command::Replicate(_) | Command::Receive(_) => replicate::INTERRUPTED,
        #[cfg(feature = "offsite")]
        Command::Offsite(args) => match offsite::interrupted(args) {
            Some(state) => state,
            None => return error,
        },
        Command::Adopt(_) => adopt::INTERRUPTED,
        Command::Snapshot(_) => snapshot::INTERRUPTED,
        Command::Dedupe(_) => dedupe::INTERRUPTED,
        _ => return error,
    };
    error.or_hint(state)
}

fn conclude(result: Result<Ended>, output: &Output) -> ExitStatus {
    let error = match result {
        Ok(ended) => return ended.status(output),
        // Only a listing or a plan: what `verify` found is its status.
        Err(error) if outcome::is_unread(&error, output) => return Ended::Listed(ExitStatus::Done).status(output),
        Err(error) => error,
    };
    output.error(&error);
    // This error matters more.
    let _ = output.finish();
    ExitStatus::of(&error)
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
