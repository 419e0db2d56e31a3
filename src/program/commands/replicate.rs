//! `pleach replicate REPO DEST [ID...]`, `pleach send REPO ID`, `pleach receive REPO`.

use super::outcome::{Ended, counted, state, status, status_of};
use super::standard_input::StandardInput;
use crate::error::{Advice, Error, ErrorKind, Result};
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, progress, replicate as show, terminal};
use crate::snapshot::Repository;
use crate::snapshot::receive::{self, receive};
use crate::snapshot::replicate::{Asked, Destination, Options, Stats, asked, replicate, send};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

/// The state of the disk after an interruption, in words.
pub(super) const INTERRUPTED: &str = "snapshots already sent are complete; run the same command to continue";

/// The variable in which sshd gives a key's own command the command that was asked for.
const ASKED: &str = "SSH_ORIGINAL_COMMAND";

pub(crate) fn run(args: &cli::Replicate, globals: &Globals, output: &Output) -> Result<Ended> {
    let options = Options {
        ids: args.ids.clone(),
        last: args.last,
        must_exist: false,
        dry_run: args.dry_run,
        threads: globals.threads,
    };
    let nowhere = Destination::Path(PathBuf::new());
    let destination = args.destination.as_ref().unwrap_or(&nowhere);
    let done = transfer(&args.repo, destination, &options, output)?;
    Ok(Ended::Worked(done.status))
}

/// A replication that did something.
struct Transferred {
    stats: Stats,
    status: ExitStatus,
    /// Why it ended early, if it did. Already shown.
    error: Option<Error>,
}

/// Sends what the destination lacks, and prints the result.
fn transfer(repo: &Path, to: &Destination, options: &Options, output: &Output) -> Result<Transferred> {
    let result = progress::watch(output, |monitor| replicate(repo, to, options, monitor));
    let state = state(INTERRUPTED, options.dry_run);
    let (stats, error) = counted(result, |stats| &mut stats.errors, state, output)?;
    show::replicated(output, &stats, to, options.dry_run, error.as_ref());
    let status = match error {
        None if stats.is_damaged => ExitStatus::Damage,
        // The destination lacks a snapshot that it should have.
        None if stats.errors > 0 => ExitStatus::Failed,
        _ => status_of(error.as_ref(), stats.problems),
    };
    Ok(Transferred { stats, status, error })
}

/// The sums of several replications.
pub(super) struct Sums {
    pub(super) status: ExitStatus,
    pub(super) errors: u64,
    pub(super) snapshots: u64,
    pub(super) sent_bytes: u64,
    pub(super) wire_bytes: u64,
    /// The number of destinations that lack nothing.
    pub(super) complete: u64,
    /// The failure of the first destination that failed.
    pub(super) error: Option<String>,
}

/// Sends what each destination lacks. One that fails does not stop the others.
///
/// # Errors
/// If the only destination failed before it got a snapshot.
pub(super) fn transfer_to_all(
    repo: &Path,
    destinations: &[Destination],
    skips_missing: bool,
    options: &Options,
    output: &Output,
) -> Result<Sums> {
    let mut sums = Sums {
        status: ExitStatus::Done,
        errors: 0,
        snapshots: 0,
        sent_bytes: 0,
        wire_bytes: 0,
        complete: 0,
        error: None,
    };
    let mut missing = Vec::new();
    let mut failed = Vec::new();
    for to in destinations {
        match transfer(repo, to, options, output) {
            Ok(Transferred { stats, status, error }) => {
                sums.snapshots += stats.snapshots.len() as u64;
                sums.sent_bytes += stats.sent_bytes;
                sums.wire_bytes += stats.wire_bytes;
                sums.errors += stats.errors + stats.problems;
                sums.complete += u64::from(stats.errors == 0);
                sums.status = sums.status.worse(status);
                if let Some(error) = error {
                    sums.error.get_or_insert_with(|| error.to_string());
                }
                if status == ExitStatus::Interrupted {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                failed.push(error.or_hint(state(INTERRUPTED, options.dry_run)));
                break;
            }
            Err(error) if skips_missing && is_missing(&error) => missing.push(error),
            Err(error) => failed.push(error),
        }
    }
    if destinations.len() == missing.len() {
        failed.append(&mut missing);
    }
    missing.iter().for_each(|error| show::skipped(output, error));
    if destinations.len() == 1
        && let Some(error) = failed.pop()
    {
        return Err(error);
    }
    for error in &failed {
        output.error(error);
        sums.error.get_or_insert_with(|| error.to_string());
        sums.errors += 1;
        sums.status = sums.status.worse(ExitStatus::of(error));
    }
    Ok(sums)
}

/// Whether a destination is not there now: a disk that is not mounted, a host that is off.
fn is_missing(error: &Error) -> bool {
    matches!(error.code(), "no-repository" | "not-found" | "no-connection")
}

pub(crate) fn run_send(args: &cli::Send, globals: &Globals, output: &Output) -> Result<Ended> {
    if io::stdout().is_terminal() {
        return Err(Error::usage("send a snapshot to a terminal").hint("redirect the output to a file or a pipe"));
    }
    let (repo, id) = args.repo_and_id();
    let options = Options { threads: globals.threads, ..Options::default() };
    let out = stdout()?;
    progress::watch(output, |monitor| send(&repo, &id, args.base.as_deref(), out, &options, monitor))?;
    Ok(Ended::Listed(ExitStatus::Done))
}

/// Stdout for a stream or for replies.
fn stdout() -> Result<BufWriter<File>> {
    let file = terminal::stdout().map_err(|cause| Error::failed("write the output").because(cause))?;
    Ok(BufWriter::new(file))
}

pub(crate) fn run_receive(args: &cli::Receive, globals: &Globals, output: &Output) -> Result<Ended> {
    let repo = args.repo.as_deref().unwrap_or(Path::new(""));
    let mut dry_run = args.dry_run;
    if let Some(line) = std::env::var_os(ASKED).filter(|_| args.stdio || args.restrict) {
        dry_run |= match args.restrict {
            true => check_asked(&line, repo)?.dry_run,
            // A key may have a command of its own without `--restrict`.
            false => asked(&line, repo).is_some_and(|asked| asked.dry_run),
        };
    }
    if args.init {
        progress::watch(output, |monitor| Repository::open_or_make(repo, monitor))?;
        show::made(output, repo);
        return Ok(Ended::Worked(ExitStatus::Done));
    }
    if args.restrict {
        Repository::open(repo).map_err(|error| match error.code() {
            "no-repository" => error.advise(Advice::InitReceiver),
            _ => error,
        })?;
    }
    if io::stdin().is_terminal() {
        return Err(Error::usage("receive a snapshot from a terminal").hint("redirect the input from a file or a pipe"));
    }
    let options =
        receive::Options { threads: globals.threads, must_exist: args.restrict, only_adds: args.append_only, dry_run };
    let mut stdout = args.stdio.then(stdout).transpose()?;
    let replies = stdout.as_mut().map(|to| to as &mut dyn Write);
    let stats = progress::watch(output, |monitor| {
        let stream = BufReader::with_capacity(1 << 20, StandardInput::new(monitor));
        receive(repo, stream, replies, &options, monitor)
    })?;
    if !args.stdio {
        show::received(output, &stats, repo);
    }
    Ok(Ended::Worked(status(stats.errors)))
}

/// A key with a command of its own runs it whatever was asked for. Who asked for something else must not believe that
/// it was done.
fn check_asked(line: &OsStr, repo: &Path) -> Result<Asked> {
    let refuse = |what: String| {
        let cause = io::Error::other("this key may only receive snapshots into one repository");
        Err(Error::failed(what).because(cause).hint("its command is in authorized_keys").with_code("restricted"))
    };
    match asked(line, repo) {
        Some(asked) if asked.is_same => Ok(asked),
        Some(_) => refuse(format!("receive into another repository than {}", crate::util::text::path(repo))),
        None => refuse(format!("run '{}'", crate::util::text::escape(line))),
    }
}
