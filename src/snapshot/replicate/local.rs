//! A repository at a path of this machine: the receiver is a thread.

use super::session::{Selection, Session, Stats};
use crate::error::{Error, Result};
use crate::monitor::Silent;
use crate::snapshot::receive;
use crate::snapshot::repository::Repository;
use std::io::BufReader;
use std::path::Path;

/// How much of the stream is read at once, in bytes.
const BUFFER: usize = 1 << 20;

/// Runs a session with a receiver at `path`.
pub(super) fn run(path: &Path, session: &Session<'_>, selection: &Selection, threads: Option<usize>) -> Result<Stats> {
    let to = Repository::open_or_create(path)?;
    let pipe = || std::io::pipe().map_err(|cause| Error::failed("make a pipe").because(cause));
    let ((stream, out), (answers, replies)) = (pipe()?, pipe()?);
    // A larger pipe means fewer switches between the threads. This is advice.
    let _ = rustix::pipe::fcntl_setpipe_size(&out, BUFFER);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let options = receive::Options { threads, ..receive::Options::default() };
            receive::serve(&to, BufReader::with_capacity(BUFFER, stream), Some(replies), &options, &Silent)
        });
        let sent = session.run(selection, out, answers);
        match (sent, receiver.join()) {
            (_, Err(_)) => Err(Error::failed("receive").at(path)),
            // Its error is the cause of an error of the sender.
            (Err(error), Ok(Err(received))) => Err(if error.code() == "receiver-failed" { received } else { error }),
            (Err(error), Ok(Ok(_))) | (Ok(_), Ok(Err(error))) => Err(error),
            (Ok(stats), Ok(Ok(_))) => Ok(stats),
        }
    })
}
