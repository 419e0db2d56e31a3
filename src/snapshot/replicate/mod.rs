//! Sends the snapshots that another repository lacks: to a path, or to another host.
//!
//! - `work`: the snapshots, and the result. `conversation`: the sender's side of one.
//! - `local`: a receiver in this process.
//! - `remote`: one on another host. `destination` has its address, `process` the command that connects, `replies`
//!   the beginning of what arrives, `stderr` the messages, `unreached` the errors.

mod conversation;
mod destination;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod local;
mod process;
mod remote;
mod replies;
mod stderr;
mod unreached;
mod work;

pub use destination::{Destination, Remote};
pub use work::{Snapshot, Stats, Stopped};

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::snapshot::outgoing::Selection;
use crate::snapshot::repository::Repository;
use crate::snapshot::stream::State;
use crate::util::semaphore::waiters;
use conversation::Conversation;
use std::path::Path;
use std::time::Instant;
use work::{Turn, Work};

/// How snapshots are replicated.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The snapshots, by their IDs. Without any: all, or the last ones.
    pub ids: Vec<String>,
    /// Send only this many of the newest snapshots.
    pub last: Option<usize>,
    /// The destination must be a repository already.
    pub must_exist: bool,
    /// Find out what would be sent, and change nothing.
    pub dry_run: bool,
    /// The number of threads.
    pub threads: Option<usize>,
}

/// Sends to the repository at `to` the snapshots of `repo` that it lacks.
///
/// A snapshot that is damaged or cannot be read is reported, counted and skipped.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::create;
/// use pleach::snapshot::replicate::{Destination, Options, replicate};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source], &repo, &create::Options::default(), &Silent)?;
///
/// let to = Destination::parse(dir.path().join("copy").as_os_str())?;
/// let stats = replicate(&repo, &to, &Options::default(), &Silent)?;
/// assert_eq!((stats.snapshots.len(), stats.errors), (1, 0));
/// assert!(replicate(&repo, &to, &Options::default(), &Silent)?.snapshots.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the work ended early. The snapshots before it are complete, and [`Stopped`] has them.
pub fn replicate(repo: &Path, to: &Destination, options: &Options, monitor: &dyn Monitor) -> Result<Stats, Stopped> {
    let begun = Instant::now();
    let repository = Repository::open(repo)?;
    let selection = Selection::resolve(&repository, &options.ids, options.last)?;
    let conversation = |packs| Conversation {
        repository: &repository,
        threads: threads(options),
        packs,
        dry_run: options.dry_run,
        monitor,
    };
    let Options { must_exist, dry_run, .. } = *options;
    repository.report_strays(monitor)?;
    let mut work = Work::new(&repository, &selection, monitor)?;
    let number = work.snapshots.len();
    let result = match to {
        Destination::Path(path) => match local::open(&repository, path, (must_exist, dry_run), monitor) {
            Ok(Some(to)) => {
                let result = repeated(|| local::run(&to, &conversation(false), &mut work, options.threads));
                if let Some(newest) = work.stats.snapshots.last() {
                    local::report_copy(&repository, &newest.name, path, monitor);
                }
                result
            }
            Ok(None) => {
                conversation::plan(&mut work, &mut vec![State::Missing; number], monitor);
                Ok(())
            }
            Err(error) => Err(error),
        },
        Destination::Remote(to) => repeated(|| remote::run(to, &conversation(true), &mut work, must_exist)),
    };
    let stats = Stats { seconds: begun.elapsed().as_secs_f64(), ..work.stats };
    match result {
        Ok(()) => Ok(stats),
        Err(error) if stats.snapshots.is_empty() => Err(error.into()),
        Err(error) => Err(Stopped::after(error, stats)),
    }
}

/// Converses until nothing is left.
fn repeated(mut converse: impl FnMut() -> Result<Turn>) -> Result<()> {
    while converse()? == Turn::Again {}
    Ok(())
}

/// Most reads wait for the disk.
fn threads(options: &Options) -> usize {
    options.threads.unwrap_or_else(waiters)
}

/// What a command line asks of a receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Whether it names the receiver's own repository.
    pub(crate) is_same: bool,
    /// Whether it is for a dry run.
    pub(crate) dry_run: bool,
}

/// What a command line asks of a receiver in the repository at `path`, as [`replicate`] asks on another host. `None`:
/// it asks for something else.
pub(crate) fn asked(line: &std::ffi::OsStr, path: &Path) -> Option<Asked> {
    let (asked, dry_run) = process::asked_in(line)?;
    let is_same = || Some(std::fs::canonicalize(&asked).ok()? == std::fs::canonicalize(path).ok()?);
    Some(Asked { is_same: Path::new(&asked) == path || is_same() == Some(true), dry_run })
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
    let conversation =
        Conversation { repository: &repository, threads: threads(options), packs: true, dry_run: false, monitor };
    let (done, sent) = conversation.send_one(&name, base.as_deref(), out)?;
    Ok(Stats {
        sent_bytes: done.sent_bytes,
        shared_bytes: done.shared_bytes,
        snapshots: vec![Snapshot { name, base, sent_bytes: done.sent_bytes, shared_bytes: done.shared_bytes }],
        stream_bytes: sent.stream_bytes,
        wire_bytes: sent.wire_bytes,
        seconds: begun.elapsed().as_secs_f64(),
        ..Stats::default()
    })
}
