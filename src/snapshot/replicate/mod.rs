//! Sends the snapshots that another repository lacks: to a path, or to another host. `session` is the sender's side of
//! the conversation, `local` and `remote` connect it with a receiver.

mod local;
mod remote;
mod session;

pub use remote::{Destination, Host};
pub use session::{Selection, Stats};

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::snapshot::repository::Repository;
use crate::util::semaphore::cores;
use session::Session;
use std::path::Path;
use std::time::Instant;

/// How snapshots are replicated.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The snapshots, by their IDs. Without any: all, or the last ones.
    pub ids: Vec<String>,
    /// Only the newest snapshots, so many.
    pub last: Option<usize>,
    /// The number of threads.
    pub threads: Option<usize>,
}

/// Sends to the repository at `to` the snapshots of `repo` that it lacks.
///
/// # Errors
/// If a snapshot cannot be sent. The snapshots before it are complete.
pub fn replicate(repo: &Path, to: &Destination, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let repository = Repository::open(repo)?;
    let selection = match options.last {
        Some(last) => Selection::Last(last),
        None if options.ids.is_empty() => Selection::All,
        None => {
            let names = options.ids.iter().map(|id| Ok(repository.resolve(id)?.name));
            Selection::Named(names.collect::<Result<_>>()?)
        }
    };
    // Most reads wait for the disk.
    let threads = options.threads.unwrap_or_else(|| (cores() * 4).clamp(4, 16));
    let session = |packs| Session { repository: &repository, threads, packs, monitor };
    let mut stats = match to {
        Destination::Path(path) => local::run(path, &session(false), &selection, options.threads)?,
        Destination::Host(host) => remote::run(host, &session(true), &selection)?,
    };
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// Writes one snapshot to `out`, based on another one if `base` names it.
///
/// # Errors
/// If it cannot be read or written.
pub fn send(
    repo: &Path,
    id: &str,
    base: Option<&str>,
    out: impl std::io::Write,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let begun = Instant::now();
    let repository = Repository::open(repo)?;
    let name = repository.resolve(id)?.name;
    let base = base.map(|base| Ok::<_, Error>(repository.resolve(base)?.name)).transpose()?;
    if base.as_ref() == Some(&name) {
        return Err(Error::usage("send a snapshot based on itself"));
    }
    let threads = options.threads.unwrap_or_else(|| (cores() * 4).clamp(4, 16));
    let session = Session { repository: &repository, threads, packs: true, monitor };
    let mut stats = session.send_one(&name, base.as_deref(), out)?;
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}
