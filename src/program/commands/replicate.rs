//! `pleach replicate REPO DEST [ID...]`, `pleach send REPO ID`, `pleach receive REPO`.

use crate::error::{Error, Result};
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, progress, replicate as show};
use crate::snapshot::receive::{self, receive};
use crate::snapshot::replicate::{Destination, Options, replicate, send};
use std::io::{BufReader, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

/// The state of the disk after an interruption, in words.
pub(super) const INTERRUPTED: &str = "the snapshots that were sent are whole; the same command goes on";

pub(crate) fn run(args: &cli::Replicate, globals: &Globals, output: &Output) -> Result<ExitStatus> {
    let options = Options { ids: args.ids.clone(), last: args.last, threads: globals.threads };
    let nowhere = Destination::Path(PathBuf::new());
    let destination = args.destination.as_ref().unwrap_or(&nowhere);
    let stats = progress::watch(output, |monitor| replicate(&args.repo, destination, &options, monitor))?;
    show::replicated(output, &stats);
    Ok(ExitStatus::Done)
}

pub(crate) fn run_send(args: &cli::Send, globals: &Globals, output: &Output) -> Result<ExitStatus> {
    let stdout = std::io::stdout();
    if stdout.is_terminal() {
        return Err(Error::usage("send a snapshot to a terminal: redirect the output to a file or a pipe"));
    }
    let (repo, id) = args.repo_and_id();
    let options = Options { threads: globals.threads, ..Options::default() };
    let out = stdout.lock();
    progress::watch(output, |monitor| send(&repo, &id, args.base.as_deref(), out, &options, monitor))?;
    Ok(ExitStatus::Done)
}

pub(crate) fn run_receive(args: &cli::Receive, globals: &Globals, output: &Output) -> Result<ExitStatus> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Err(Error::usage("receive a snapshot from a terminal: redirect the input from a file or a pipe"));
    }
    let options = receive::Options { threads: globals.threads, must_exist: args.restrict, only_adds: args.append_only };
    let repo = args.repo.as_deref().unwrap_or(Path::new(""));
    let mut stdout = std::io::stdout().lock();
    let replies = args.stdio.then_some(&mut stdout as &mut dyn Write);
    let stats = progress::watch(output, |monitor| {
        receive(repo, BufReader::with_capacity(1 << 20, stdin.lock()), replies, &options, monitor)
    })?;
    if !args.stdio {
        show::received(output, &stats);
    }
    Ok(ExitStatus::Done)
}
