//! The sender's side of a replication: it offers its snapshots, learns which ones the receiver lacks, and sends these,
//! oldest first, each based on the newest one of the same sources that both have.

use crate::error::{Error, Result};
use crate::fs::filesystem::Filesystem;
use crate::monitor::Monitor;
use crate::snapshot::receive::of_other_side;
use crate::snapshot::repository::{self, Repository, SnapshotInfo};
use crate::snapshot::send;
use crate::snapshot::stream::{Input, Offered, Op, Output, Position, Reply, Sent, State, damage};
use std::io::{Read, Write};

/// Which snapshots are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All.
    All,
    /// The newest ones, so many.
    Last(usize),
    /// Those with these names.
    Named(Vec<String>),
}

/// What was done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshots that were sent.
    pub snapshots: Vec<String>,
    /// Bytes of content that were sent.
    pub sent_bytes: u64,
    /// Bytes of content that the receiver had in other files.
    pub shared_bytes: u64,
    /// Bytes of the stream before compression.
    pub stream_bytes: u64,
    /// Bytes that were transferred.
    pub wire_bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// A replication.
pub(crate) struct Session<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) threads: usize,
    /// Whether data is compressed on its way.
    pub(crate) packs: bool,
    pub(crate) monitor: &'a dyn Monitor,
}

impl Session<'_> {
    /// Sends the selected snapshots.
    pub(crate) fn run<W: Write, R: Read>(&self, selection: &Selection, to: W, replies: R) -> Result<Stats> {
        let listing = self.repository.listing()?;
        let snapshots = listing.snapshots;
        let mut out = Output::begin(to, self.packs)?;
        let mut offered = Vec::with_capacity(snapshots.len());
        for info in &snapshots {
            offered.push(Offered {
                name: info.name.clone(),
                identity: repository::identity(self.repository, &info.name)?,
            });
        }
        out.push(&Op::Offer(offered.clone()))?;
        out.flush()?;
        let mut replies = Input::begin(replies)?;
        let mut states = match replies.next()? {
            Reply::Answer(states) if states.len() == offered.len() => states,
            Reply::Failed(failure) => return Err(of_other_side(&failure)),
            _ => return Err(damage("the receiver does not answer")),
        };
        let mut stats = Stats::default();
        for number in 0..snapshots.len() {
            let name = &snapshots[number].name;
            let is_selected = match selection {
                Selection::All => true,
                Selection::Last(count) => number + count >= snapshots.len(),
                Selection::Named(names) => names.contains(name),
            };
            if !is_selected || states[number] == State::Complete {
                continue;
            }
            if states[number] == State::Other {
                let error = Error::failed(format!("send the snapshot {name}"));
                return Err(error.hint("the receiver has another snapshot of this name"));
            }
            let (base, position) = beginning(&snapshots, &states, number);
            let sent = self.send(&mut out, name, base.map(|base| snapshots[base].name.as_str()), position);
            // If the receiver failed, its reason is the better one.
            match replies_after(&sent, &mut replies)? {
                Reply::Received => {}
                Reply::Failed(failure) => return Err(of_other_side(&failure)),
                Reply::Answer(_) => return Err(damage("the receiver answers twice")),
            }
            let work = sent?;
            stats.sent_bytes += work.sent_bytes;
            stats.shared_bytes += work.shared_bytes;
            stats.snapshots.push(name.clone());
            states[number] = State::Complete;
        }
        out.push(&Op::Bye)?;
        out.flush()?;
        (stats.stream_bytes, stats.wire_bytes) = (out.sent().stream_bytes, out.sent().wire_bytes);
        Ok(stats)
    }

    /// Writes one snapshot without a conversation.
    pub(crate) fn send_one<W: Write>(&self, name: &str, base: Option<&str>, to: W) -> Result<Stats> {
        let mut out = Output::begin(to, self.packs)?;
        let work = self.send(&mut out, name, base, Position::default())?;
        out.push(&Op::Bye)?;
        out.flush()?;
        let send::Work { sent_bytes, shared_bytes } = work;
        let Sent { stream_bytes, wire_bytes } = out.sent();
        Ok(Stats {
            snapshots: vec![name.to_string()],
            sent_bytes,
            shared_bytes,
            stream_bytes,
            wire_bytes,
            seconds: 0.0,
        })
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
        let filesystem = Filesystem::probe(self.repository.fd(), self.repository.path())?;
        let snapshots = (&new, base.as_ref());
        let work = send::snapshot(out, snapshots, position, !filesystem.reflink, self.threads, self.monitor)?;
        out.flush()?;
        Ok(work)
    }
}

/// What the receiver says after a snapshot was sent, or could not be sent to its end.
fn replies_after<R: Read>(sent: &Result<send::Work>, replies: &mut Input<R>) -> Result<Reply> {
    match sent {
        // Nothing more will be sent, and the receiver waits for the rest.
        Err(error) if error.code() != "cannot-send" => Ok(Reply::Received),
        _ => replies.next(),
    }
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
