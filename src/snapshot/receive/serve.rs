//! Receives what a sender sends, one snapshot after the other, and answers it if it listens.

use super::receiver::Received;
use super::transfer::{begun, snapshot};
use crate::error::{Error, Result};
use crate::monitor::{Event, Monitor};
use crate::snapshot::manifest::Time;
use crate::snapshot::recording_monitor::Noting;
use crate::snapshot::repository::{self, Clearing, Repository};
use crate::snapshot::stream::{Begin, Failure, Input, Offered, Op, Output, Reply, State, damage};
use crate::util::semaphore::waiters;
use crate::util::text;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

/// How many seconds the sender's clock may be ahead.
const TOLERANCE: i64 = 3600;

/// How many received snapshots an error names.
const NAMED: usize = 10;

/// How snapshots are received.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The number of threads that clone files.
    pub threads: Option<usize>,
    /// The repository must exist.
    pub must_exist: bool,
    /// Snapshots of the future are refused: they would outlive all others when the repository is pruned.
    pub only_adds: bool,
    /// Only answer which snapshots are missing, and change nothing. For a sender that plans.
    pub dry_run: bool,
}

/// The work of a receiver.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The names of the snapshots.
    pub snapshots: Vec<String>,
    /// Bytes of content that arrived.
    pub received_bytes: u64,
    /// Bytes of content that other files here had.
    pub shared_bytes: u64,
    /// Bytes of the stream before compression.
    pub stream_bytes: u64,
    /// Bytes of the stream as it arrived.
    pub wire_bytes: u64,
    /// Problems that cost no snapshot; each was reported to the monitor.
    pub errors: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Receives the snapshots of a stream into the repository at `repo`, which is created if it is missing. With `replies`,
/// the stream is a conversation.
///
/// # Errors
/// If a snapshot cannot be received, or the stream is damaged behind one. The snapshots before it are complete. A step
/// that fails after a snapshot has appeared is reported to the monitor and counted.
pub fn receive(
    repo: &Path,
    from: impl Read,
    replies: Option<&mut dyn Write>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let begun = Instant::now();
    let repository = match options {
        Options { must_exist: true, .. } => Some(Repository::open(repo)?),
        Options { dry_run: true, .. } => Repository::open_if_made(repo)?,
        _ => Some(Repository::open_or_make(repo, monitor)?),
    };
    if repository.is_none() {
        monitor.event(Event::RepositoryMissing(repo));
    }
    let stats = serve(repository.as_ref(), from, replies, options, monitor)?;
    Ok(Stats { seconds: begun.elapsed().as_secs_f64(), ..stats })
}

/// Receives snapshots until the sender ends. With `replies`, the sender learns what happens. Only a dry run can do
/// without a repository.
pub(crate) fn serve<R: Read, W: Write>(
    repository: Option<&Repository>,
    from: R,
    replies: Option<W>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let mut replies = replies.map(|to| Output::begin(to, false)).transpose()?;
    let mut stats = Stats::default();
    let noting = Noting::new(monitor);
    let result = receive_all(repository, from, &mut replies, options, &mut stats, &noting)
        .map_err(|error| if monitor.is_cancelled() { Error::interrupted() } else { error });
    stats.errors = noting.finish().count;
    match (result, &mut replies) {
        (Ok(()), _) => Ok(stats),
        (Err(error), Some(replies)) => {
            let failure = Failure { code: error.code().to_string(), message: error.to_string() };
            // The sender may be gone.
            let _ = reply(replies, &Reply::Failed(failure));
            Err(error)
        }
        // No sender knows what arrived.
        (Err(error), None) => Err(naming(error, &stats.snapshots)),
    }
}

/// The error of a stream, with the snapshots that arrived before it.
fn naming(error: Error, arrived: &[String]) -> Error {
    let names: Vec<_> = arrived.iter().take(NAMED).map(|name| text::escape(OsStr::new(name))).collect();
    let names = match arrived.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {} more", names.join(", "), text::count(more as u64)),
    };
    match arrived {
        [] => error,
        [_] => error.hint_also(&format!("the snapshot that arrived whole stays: {names}")),
        _ => error.hint_also(&format!("the snapshots that arrived whole stay: {names}")),
    }
}

fn receive_all<R: Read, W: Write>(
    repository: Option<&Repository>,
    from: R,
    replies: &mut Option<Output<W>>,
    options: &Options,
    stats: &mut Stats,
    monitor: &dyn Monitor,
) -> Result<()> {
    let Some(repository) = repository else { return answer(None, from, replies, stats) };
    // Taking the lock would change its file.
    let _lock = if options.dry_run { None } else { Some(repository.lock(monitor)?) };
    repository::check_latest(repository, "nothing was received")?;
    if options.dry_run {
        return answer(Some(repository), from, replies, stats);
    }
    // Most of the time is spent waiting for inodes of the base.
    let threads = options.threads.unwrap_or_else(waiters);
    repository::clear_leftovers(repository, &[], threads, &Clearing::new(monitor))?;
    let received = receive_each(repository, from, replies, (options, threads), stats, monitor);
    // Also if nothing was received: the last run may have ended before this. The error of the transfer matters more.
    if let Err(error) = repository::correct_latest(repository)
        && received.is_ok()
    {
        monitor.problem(&error.or_hint("all snapshots are complete; the next run corrects the link"));
    }
    received
}

/// Answers which snapshots are missing, until the sender ends. Nothing else may arrive.
fn answer<R: Read, W: Write>(
    repository: Option<&Repository>,
    from: R,
    replies: &mut Option<Output<W>>,
    stats: &mut Stats,
) -> Result<()> {
    let mut input = Input::begin(from)?;
    loop {
        match (input.next_op()?, &mut *replies) {
            (Op::Bye, _) => {
                (stats.stream_bytes, stats.wire_bytes) = input.counts();
                return Ok(());
            }
            (Op::Offer(offered), Some(replies)) => reply(replies, &Reply::Answer(states(repository, &offered)?))?,
            _ => return Err(damage("a snapshot arrives in a dry run")),
        }
    }
}

fn receive_each<R: Read, W: Write>(
    repository: &Repository,
    from: R,
    replies: &mut Option<Output<W>>,
    (options, threads): (&Options, usize),
    stats: &mut Stats,
    monitor: &dyn Monitor,
) -> Result<()> {
    let mut input = Input::begin(from)?;
    loop {
        match (input.next_op()?, &mut *replies) {
            // Streams in files may follow each other.
            (Op::Bye, None) if input.next_stream()? => {}
            (Op::Bye, _) => {
                (stats.stream_bytes, stats.wire_bytes) = input.counts();
                return Ok(());
            }
            (Op::Offer(offered), Some(replies)) => {
                reply(replies, &Reply::Answer(states(Some(repository), &offered)?))?;
            }
            (Op::Begin(begin), replies) => {
                let names = std::iter::once(&begin.header.name).chain(begin.base.iter().map(|(name, _)| name));
                if !names.into_iter().all(|name| repository::is_snapshot_name(name)) {
                    return Err(damage("invalid snapshot name"));
                }
                if options.only_adds && begin.header.created.seconds > Time::now().seconds.saturating_add(TOLERANCE) {
                    return Err(Error::failed(format!("add the snapshot {}", begin.header.name))
                        .hint("its time is in the future; is a clock wrong?")
                        .with_code("future-snapshot"));
                }
                if has(repository, &begin)? {
                    pass_over(&mut input, monitor)?;
                } else {
                    let (received, unsealed) = snapshot(repository, &mut input, &begin, threads, monitor)?;
                    // It is a snapshot now, whatever fails.
                    if let Some(error) = &unsealed {
                        monitor.problem(error);
                    }
                    // Now and not only at the end, which may be hours away. The end reports errors.
                    let _ = repository::correct_latest(repository);
                    let Received { name, data_bytes, shared_bytes } = received;
                    stats.snapshots.push(name);
                    stats.received_bytes += data_bytes;
                    stats.shared_bytes += shared_bytes;
                }
                if let Some(replies) = replies {
                    reply(replies, &Reply::Received)?;
                }
            }
            _ => return Err(damage("a snapshot does not begin")),
        }
    }
}

/// Whether the repository has this snapshot: a stream in a file may be received again.
fn has(repository: &Repository, begin: &Begin) -> Result<bool> {
    let name = &begin.header.name;
    if !repository.has_snapshot(name)? {
        return Ok(false);
    }
    if repository::identity(repository, name)? == begin.identity {
        return Ok(true);
    }
    Err(Error::failed(format!("receive the snapshot {name} into"))
        .at(repository.path())
        .hint("the repository has another snapshot of this name"))
}

/// Reads a snapshot and makes nothing of it.
fn pass_over<R: Read>(input: &mut Input<R>, monitor: &dyn Monitor) -> Result<()> {
    loop {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        match input.next_op()? {
            Op::Data { length, .. } => input.skip(length)?,
            Op::End { .. } => return Ok(()),
            Op::Begin(_) | Op::Offer(_) | Op::Bye => return Err(damage("a snapshot does not end")),
            _ => {}
        }
    }
}

/// What the repository, if there is one, has of each snapshot.
fn states(repository: Option<&Repository>, offered: &[Offered]) -> Result<Vec<State>> {
    let Some(repository) = repository else { return Ok(vec![State::Missing; offered.len()]) };
    let present: HashSet<String> = repository.snapshot_names()?.into_iter().collect();
    Ok(offered.iter().map(|offered| state(repository, &present, offered)).collect())
}

/// What the repository has of a snapshot.
fn state(repository: &Repository, present: &HashSet<String>, offered: &Offered) -> State {
    if !present.contains(&offered.name) {
        let begun = begun(repository, &offered.name, &offered.identity);
        return begun.map_or(State::Missing, |(base, position)| State::Begun { base, position });
    }
    match repository::identity(repository, &offered.name) {
        Ok(identity) if identity == offered.identity => State::Complete,
        _ => State::Other,
    }
}

fn reply<W: Write>(replies: &mut Output<W>, what: &Reply) -> Result<()> {
    replies.push(what)?;
    replies.flush()
}
