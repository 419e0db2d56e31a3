//! The sender's side of a conversation: it offers its snapshots, learns which ones the receiver lacks, and sends these,
//! oldest first, each based on the newest one of the same sources that both have.
//!
//! A snapshot that cannot be sent ends the conversation, because the receiver waits for the rest of it. The others need
//! another one.

use super::work::{Snapshot, Turn, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::filesystem::Filesystem;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::repository::{Repository, SnapshotInfo};
use crate::snapshot::send;
use crate::snapshot::stream::{Failure, Input, Op, Output, Position, Reply, Sent, State, damage};
use crate::snapshot::unreadable::check_filesystem;
use std::io::{Read, Write};

/// Why a conversation ended early.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The receiver gave up, and said why.
    Receiver(Failure),
    /// Nothing can be sent, or nothing that is understood arrives.
    Connection(Error),
    /// Something on this side.
    Here(Error),
}

/// A replication.
pub(super) struct Conversation<'a> {
    pub(super) repository: &'a Repository,
    pub(super) threads: usize,
    /// Whether data is compressed on its way.
    pub(super) packs: bool,
    /// Only plan.
    pub(super) dry_run: bool,
    pub(super) monitor: &'a dyn Monitor,
}

impl Conversation<'_> {
    /// Sends the wanted snapshots that the receiver lacks.
    pub(super) fn run<W: Write, R: Read>(
        &self,
        work: &mut Work,
        to: W,
        replies: R,
    ) -> std::result::Result<Turn, Obstacle> {
        let mut out = Output::begin(to, self.packs).map_err(Obstacle::Connection)?;
        let mut input = None;
        let turn = self.converse(work, &mut out, &mut input, replies);
        let answered = input.map_or(0, |input| input.counts().1);
        work.stats.stream_bytes += out.sent().stream_bytes;
        work.stats.wire_bytes += out.sent().wire_bytes + answered;
        turn
    }

    fn converse<W: Write, R: Read>(
        &self,
        work: &mut Work,
        out: &mut Output<W>,
        input: &mut Option<Input<R>>,
        replies: R,
    ) -> std::result::Result<Turn, Obstacle> {
        let offered = out.push(&Op::Offer(work.offered.clone())).and_then(|()| out.flush());
        if let Err(error) = &offered
            && !has_stopped(error)
        {
            return offered.map(|()| Turn::Done).map_err(Obstacle::Connection);
        }
        // A receiver that does not listen may have said why.
        let replies = match (Input::begin(replies), offered) {
            (Ok(replies), _) => input.insert(replies),
            (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(Obstacle::Connection(error)),
        };
        let mut states = match replies.next().map_err(Obstacle::Connection)? {
            Reply::Answer(states) if states.len() == work.offered.len() => states,
            Reply::Failed(failure) => return Err(Obstacle::Receiver(failure)),
            _ => return Err(Obstacle::Connection(damage("the receiver does not answer"))),
        };
        if self.dry_run {
            plan(work, &mut states, self.monitor);
        }
        let mut left = work.left(&states);
        while let Some(number) = left.pop_front() {
            if self.monitor.is_cancelled() {
                return Err(Obstacle::Here(Error::interrupted()));
            }
            if states[number] == State::Other {
                work.refuse(number, self.monitor);
                continue;
            }
            let (base, position) = beginning(&work.snapshots, &states, number);
            if let Some(deleted) = self.deleted(work, base, number).map_err(Obstacle::Here)? {
                // It cannot be sent, and is not a base.
                states[deleted] = State::Other;
                match deleted == number {
                    true => work.skip(number, self.monitor),
                    false => left.push_front(number),
                }
                continue;
            }
            let base = base.map(|base| work.snapshots[base].name.clone());
            self.begin_phase(work, number, left.len(), base.is_some());
            let name = work.snapshots[number].name.clone();
            let sent = self.send(out, &name, base.as_deref(), position);
            match confirmed(&name, sent, replies)? {
                Ok(done) => {
                    let send::Work { sent_bytes, shared_bytes } = done;
                    work.sent(number, Snapshot { name, base, sent_bytes, shared_bytes });
                    states[number] = State::Complete;
                }
                Err(error) => {
                    return work.failed(number, base.is_some(), error, self.monitor).map_err(Obstacle::Here);
                }
            }
        }
        out.push(&Op::Bye).and_then(|()| out.flush()).map_err(Obstacle::Connection)?;
        Ok(Turn::Done)
    }

    /// The snapshot, or else its base, if another run has deleted it.
    fn deleted(&self, work: &Work, base: Option<usize>, number: usize) -> Result<Option<usize>> {
        for number in std::iter::once(number).chain(base) {
            if !self.repository.has_snapshot(&work.snapshots[number].name)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Its size is only known if all of it is sent.
    fn begin_phase(&self, work: &mut Work, number: usize, others: usize, is_based: bool) {
        let totals = work.snapshots[number].totals;
        let (at, all) = work.count(others);
        let name = if all > 1 { format!("sending {at} of {all}") } else { "sending".to_string() };
        let bytes = if is_based { 0 } else { totals.bytes };
        self.monitor.phase(&name, Some(Amount { files: totals.entries(), bytes }));
    }

    /// Writes one snapshot without a conversation.
    pub(super) fn send_one<W: Write>(&self, name: &str, base: Option<&str>, to: W) -> Result<(send::Work, Sent)> {
        let mut out = Output::begin(to, self.packs)?;
        let work = self.send(&mut out, name, base, Position::default())?;
        out.push(&Op::Bye)?;
        out.flush()?;
        Ok((work, out.sent()))
    }

    fn send<W: Write>(
        &self,
        out: &mut Output<W>,
        name: &str,
        base: Option<&str>,
        position: Position,
    ) -> Result<send::Work> {
        let new = send::Snapshot::open(self.repository, name)?;
        let base = base.map(|base| send::Snapshot::open(self.repository, base)).transpose()?;
        let snapshots = (&new, base.as_ref());
        // Nothing is written here: the filesystem may be full, or read-only.
        let reads = !Filesystem::shares_data(&new.tree);
        let sent = send::snapshot(out, snapshots, position, reads, self.threads, self.monitor);
        if matches!(&sent, Err(error) if error.kind() == ErrorKind::Damage) {
            check_filesystem(self.repository)?;
        }
        let work = sent?;
        out.flush()?;
        Ok(work)
    }
}

/// Plans what would be sent to a receiver that has these snapshots.
pub(super) fn plan(work: &mut Work, states: &mut [State], monitor: &dyn Monitor) {
    for number in work.left(states) {
        if states[number] == State::Other {
            work.refuse(number, monitor);
            continue;
        }
        let (base, _) = beginning(&work.snapshots, states, number);
        let base = base.map(|base| work.snapshots[base].name.clone());
        work.plan(number, base);
        states[number] = State::Complete;
    }
}

/// The result of sending a snapshot, after the receiver has confirmed it. The inner error concerns this snapshot alone.
fn confirmed<R: Read>(
    name: &str,
    sent: Result<send::Work>,
    replies: &mut Input<R>,
) -> std::result::Result<Result<send::Work>, Obstacle> {
    let reply = match &sent {
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(Obstacle::Here(Error::interrupted())),
        // Nothing more will be sent, and the receiver waits for the rest.
        Err(error) if error.code() != "cannot-send" => return Ok(sent),
        Err(error) if !has_stopped(error) => return sent.map(Ok).map_err(Obstacle::Connection),
        _ => replies.next(),
    };
    match (reply, sent) {
        (Ok(Reply::Received), Ok(work)) => Ok(Ok(work)),
        // What arrived differs from the records: the tree of the snapshot is damaged.
        (Ok(Reply::Failed(failure)), _) if failure.code == "damage" => {
            let cause = std::io::Error::other(format!("the receiver found damage: {}", failure.reason()));
            Ok(Err(Error::new(ErrorKind::Damage, format!("send the snapshot {name}")).because(cause)))
        }
        (Ok(Reply::Failed(failure)), _) => Err(Obstacle::Receiver(failure)),
        (Ok(_), Ok(_)) => Err(Obstacle::Connection(damage("the receiver answers twice"))),
        (Err(error), Ok(_)) | (_, Err(error)) => Err(Obstacle::Connection(error)),
    }
}

/// Whether a failed write means that the receiver listens no more, so that its reply says why. After other errors it
/// would wait for the rest, and the sender for its reply.
fn has_stopped(error: &Error) -> bool {
    error.raw_os_error() == Some(libc::EPIPE)
}

/// The snapshot that the next one is based on, by number, and how far the receiver has it already.
fn beginning(snapshots: &[SnapshotInfo], states: &[State], number: usize) -> (Option<usize>, Position) {
    let State::Begun { base: name, position } = &states[number] else {
        return (base(snapshots, states, number), Position::default());
    };
    let Some(name) = name else { return (None, *position) };
    match (0..snapshots.len()).find(|other| snapshots[*other].name == *name && states[*other] == State::Complete) {
        Some(base) => (Some(base), *position),
        None => (base(snapshots, states, number), Position::default()),
    }
}

/// The snapshot that the next one is based on, by number: the newest older one that the receiver has, if possible of
/// the same sources.
fn base(snapshots: &[SnapshotInfo], states: &[State], number: usize) -> Option<usize> {
    let complete = || (0..snapshots.len()).filter(|other| states[*other] == State::Complete);
    let sources = &snapshots[number].header.sources;
    let is_same = |other: &usize| snapshots[*other].header.sources == *sources;
    let older = || complete().filter(|other| *other < number);
    let nearest = older().rfind(is_same).or_else(|| complete().find(is_same));
    nearest.or_else(|| older().next_back()).or_else(|| complete().next())
}
