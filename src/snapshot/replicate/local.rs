//! A repository at a path of this machine: the receiver is a thread.

use super::conversation::{Conversation, Obstacle};
use super::work::{Turn, Work};
use crate::error::{Advice, Error, Result};
use crate::fs::filesystem::Filesystem;
use crate::monitor::{Event, Monitor};
use crate::snapshot::receive;
use crate::snapshot::recording_monitor::Noting;
use crate::snapshot::repository::{CONTROL, Repository, check_outside};
use crate::snapshot::source_path;
use std::io::BufReader;
use std::path::Path;

/// How much of the stream is read at once, in bytes.
const BUFFER: usize = 1 << 20;

/// Runs one conversation with a receiver in the repository `to`.
pub(super) fn run(
    to: &Repository,
    conversation: &Conversation<'_>,
    work: &mut Work,
    threads: Option<usize>,
) -> Result<Turn> {
    let noting = Noting::new(conversation.monitor);
    let turn = converse(to, conversation, work, threads, &Quiet(&noting));
    // Also those of a conversation that ended early: they were shown.
    work.stats.problems += noting.finish().count;
    turn
}

fn converse(
    to: &Repository,
    conversation: &Conversation<'_>,
    work: &mut Work,
    threads: Option<usize>,
    monitor: &Quiet<'_>,
) -> Result<Turn> {
    let pipe = || std::io::pipe().map_err(|cause| Error::failed("make a pipe").because(cause));
    let ((stream, out), (answers, replies)) = (pipe()?, pipe()?);
    // A larger pipe means fewer switches between the threads. This is advice.
    let _ = rustix::pipe::fcntl_setpipe_size(&out, BUFFER);
    std::thread::scope(|scope| {
        let receiver = std::thread::Builder::new().spawn_scoped(scope, || {
            let options = receive::Options { threads, dry_run: conversation.dry_run, ..receive::Options::default() };
            let stream = BufReader::with_capacity(BUFFER, stream);
            receive::serve(Some(to), stream, Some(replies), &options, monitor)
        });
        let receiver = receiver.map_err(|cause| Error::failed("start a thread").because(cause))?;
        let turn = conversation.run(work, out, answers);
        let received = receiver.join().unwrap_or_else(|_| Err(Error::failed("receive into").at(to.path())));
        match (turn, received) {
            (Ok(turn), _) => Ok(turn),
            _ if conversation.monitor.is_cancelled() => Err(Error::interrupted()),
            (Err(Obstacle::Here(error)), _) => Err(error),
            // Its error is the cause of an error of the sender.
            (Err(Obstacle::Receiver(_) | Obstacle::Connection(_)), Err(received)) => Err(received),
            (Err(Obstacle::Connection(error)), Ok(_)) => Err(error),
            (Err(Obstacle::Receiver(failure)), Ok(_)) => {
                Err(Error::failed("receive into").at(to.path()).because(failure.reason()))
            }
        }
    })
}

/// Opens the repository, or makes it. Reports if it is not a second disk. `None`: only a run that is not a dry run
/// makes it.
///
/// # Errors
/// If it cannot be opened, or is in the repository that is sent.
pub(super) fn open(
    from: &Repository,
    path: &Path,
    (must_exist, dry_run): (bool, bool),
    monitor: &dyn Monitor,
) -> Result<Option<Repository>> {
    check_outside(from, "replicate to", path)?;
    let to = match (must_exist, dry_run) {
        (true, _) => Repository::open(path).map_err(|error| match error.code() {
            "no-repository" => error.advise(Advice::MountDestination),
            _ => error,
        })?,
        (false, false) => Repository::open_or_make(path, monitor)?,
        (false, true) => match Repository::open_if_made(path)? {
            Some(to) => to,
            None => {
                monitor.event(Event::RepositoryMissing(path));
                return Ok(None);
            }
        },
    };
    if let (Ok(here), Ok(there)) = (Filesystem::identify(from.fd()), Filesystem::identify(to.fd()))
        && here == there
    {
        monitor.event(Event::SameFilesystem(path));
    }
    Ok(Some(to))
}

/// Reports if the snapshot has a copy of the repository at `path`. Each snapshot then has a copy of those before it.
pub(super) fn report_copy(from: &Repository, name: &str, path: &Path, monitor: &dyn Monitor) {
    let Ok(manifest) = from.manifest(name) else { return };
    let named = [std::path::absolute(path), std::fs::canonicalize(path)];
    let has_copy = |path: &Path| {
        let control = source_path::normal("replicate to", &path.join(CONTROL)).ok();
        control.is_some_and(|control| matches!(manifest.directory(&control), Ok(Some(_))))
    };
    if let Some(path) = named.iter().flatten().find(|path| has_copy(path)) {
        monitor.event(Event::ReplicaInSource { path, snapshot: name });
    }
}

/// The receiver's monitor: the progress shown is the sender's.
struct Quiet<'a>(&'a dyn Monitor);

impl Monitor for Quiet<'_> {
    fn problem(&self, error: &Error) {
        self.0.problem(error);
    }

    fn event(&self, event: Event<'_>) {
        self.0.event(event);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
