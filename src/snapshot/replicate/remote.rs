//! A repository on another host, reached by ssh(1): the user's own program, with its configuration and keys.

use super::conversation::{Conversation, Obstacle};
use super::destination::Remote;
use super::process::{self, Connection};
use super::replies::{First, Replies};
use super::stderr::{self, Progress};
use super::unreached;
use super::work::{Turn, Work};
use crate::error::{Error, Result};
use crate::monitor::Event;
use crate::util::mutex::lock;
use std::io::BufReader;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// The exit status of a receiver that received everything and then reported a problem. `ExitStatus::Incomplete` of the
/// program is the same number. The library cannot import it.
const INCOMPLETE: i32 = 3;

/// Runs one conversation with a receiver on the remote host.
pub(super) fn run(remote: &Remote, conversation: &Conversation<'_>, work: &mut Work, must_exist: bool) -> Result<Turn> {
    let name = remote.host.name();
    let mut command = process::command(remote, must_exist, conversation.dry_run)?;
    let program = command.get_program().to_os_string();
    let started = command.spawn();
    let mut child = started.map_err(|cause| unreached::not_started(&remote.host, &program, cause))?;
    let (Some(to), Some(replies), Some(messages)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(Error::failed("connect to").at(name));
    };
    let monitor = conversation.monitor;
    let connection = Connection::new(child);
    let (first, progress) = (Mutex::new(First::default()), Progress::default());
    let pass_on = |line: &str| monitor.event(Event::OtherHost { host: name, line: process::without_mark(line) });
    let (result, ended, mut rest) = std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().spawn_scoped(scope, || {
            stderr::follow(messages, &progress, &pass_on, &|| {
                if monitor.is_cancelled() {
                    connection.end_soon();
                }
            })
        });
        // Both pipes close here, so the program ends.
        let result = match &reader {
            Ok(_) => conversation.run(work, to, Replies::new(BufReader::new(replies), &first)),
            Err(cause) => {
                drop((to, replies));
                let cause = std::io::Error::from(cause.kind());
                Err(Obstacle::Here(Error::failed("start a thread").because(cause)))
            }
        };
        progress.is_over.store(true, Ordering::Release);
        let ended = connection.wait();
        progress.has_ended.store(true, Ordering::Release);
        (result, ended, reader.map(|reader| reader.join().unwrap_or_default()).unwrap_or_default())
    });
    let first = std::mem::take(&mut *lock(&first));
    let result = match result {
        Ok(Turn::Done) => {
            // It has printed the problem.
            let is_incomplete = ended.as_ref().is_ok_and(|ended| ended.code() == Some(INCOMPLETE));
            work.stats.problems += u64::from(is_incomplete);
            Ok(Turn::Done)
        }
        // What the receiver says about the end of this conversation is a consequence. What it could not do before, the
        // receiver of the next conversation tries again, and reports.
        Ok(Turn::Again) => {
            rest.clear();
            Ok(Turn::Again)
        }
        Err(_) if monitor.is_cancelled() => {
            rest.clear();
            Err(Error::interrupted())
        }
        Err(Obstacle::Here(error)) => {
            rest.clear();
            Err(error)
        }
        Err(Obstacle::Receiver(failure)) => {
            // It has printed the same.
            rest.retain(|line| !process::is_of_pleach(line));
            Err(unreached::by_receiver(&remote.url(), &failure))
        }
        Err(Obstacle::Connection(error)) => Err(unreached::why((remote, &program), error, ended, &first, &mut rest)),
    };
    rest.iter().for_each(|line| pass_on(line));
    result
}
