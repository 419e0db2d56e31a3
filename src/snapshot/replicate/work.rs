//! The work of a replication: the snapshots that are wanted, sent, or failed.

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::monitor::{Event, Monitor};
use crate::snapshot::outgoing::{self, Outgoing, Selection};
use crate::snapshot::repository::{Repository, SnapshotInfo};
use crate::snapshot::stream::{Offered, State};
use std::collections::VecDeque;

/// The result of a replication.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshots that were sent or, in a dry run, would be.
    pub snapshots: Vec<Snapshot>,
    /// Bytes of content that were sent.
    pub sent_bytes: u64,
    /// Bytes of content that the receiver had in other files.
    pub shared_bytes: u64,
    /// Bytes of the stream before compression.
    pub stream_bytes: u64,
    /// Bytes that were transferred, in both directions.
    pub wire_bytes: u64,
    /// The number of snapshots that were offered, without those that were deleted meanwhile.
    pub offered: u64,
    /// The snapshots that could not be sent.
    pub errors: u64,
    /// Whether one of them is damaged.
    pub is_damaged: bool,
    /// Problems of the receiver that cost no snapshot.
    pub problems: u64,
    /// How long it took.
    pub seconds: f64,
}

/// A snapshot that was sent or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The snapshot that it was sent as a difference from.
    pub base: Option<String>,
    /// Bytes of content that were sent.
    pub sent_bytes: u64,
    /// Bytes of content that the receiver had in other files.
    pub shared_bytes: u64,
}

/// A replication that ended early.
pub type Stopped = crate::error::Stopped<Stats>;

/// The end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing is left to send.
    Done,
    /// A snapshot failed, and others are left.
    Again,
}

/// The work, and its result so far.
pub(super) struct Work {
    /// The snapshots, oldest first, and how they are offered.
    pub(super) snapshots: Vec<SnapshotInfo>,
    pub(super) offered: Vec<Offered>,
    is_wanted: Vec<bool>,
    pub(super) stats: Stats,
}

impl Work {
    /// Looks at the snapshots of a repository. Those that cannot be read are reported.
    pub(super) fn new(repository: &Repository, selection: &Selection, monitor: &dyn Monitor) -> Result<Work> {
        let (found, problems) = outgoing::snapshots(repository, selection, monitor)?;
        let mut work =
            Work { snapshots: Vec::new(), offered: Vec::new(), is_wanted: Vec::new(), stats: Stats::default() };
        problems.into_iter().for_each(|error| work.problem(error, monitor));
        for Outgoing { info, identity, is_wanted } in found {
            work.stats.offered += u64::from(is_wanted);
            work.offered.push(Offered { name: info.name.clone(), identity });
            work.is_wanted.push(is_wanted);
            work.snapshots.push(info);
        }
        Ok(work)
    }

    /// The numbers of the snapshots that the receiver lacks, and that were not tried in vain.
    pub(super) fn left(&self, states: &[State]) -> VecDeque<usize> {
        (0..self.snapshots.len()).filter(|at| self.is_wanted[*at] && states[*at] != State::Complete).collect()
    }

    /// The number of the present snapshot, and that of all, if this many are left.
    pub(super) fn count(&self, left: usize) -> (usize, usize) {
        let at = self.stats.snapshots.len() + self.stats.errors as usize + 1;
        (at, at + left)
    }

    /// A snapshot was sent.
    pub(super) fn sent(&mut self, number: usize, snapshot: Snapshot) {
        self.is_wanted[number] = false;
        self.stats.sent_bytes += snapshot.sent_bytes;
        self.stats.shared_bytes += snapshot.shared_bytes;
        self.stats.snapshots.push(snapshot);
    }

    /// A snapshot would be sent.
    pub(super) fn plan(&mut self, number: usize, base: Option<String>) {
        let name = self.snapshots[number].name.clone();
        self.is_wanted[number] = false;
        self.stats.snapshots.push(Snapshot { name, base, ..Snapshot::default() });
    }

    /// A snapshot was deleted.
    pub(super) fn skip(&mut self, number: usize, monitor: &dyn Monitor) {
        self.is_wanted[number] = false;
        monitor.event(Event::SnapshotNotSent(&self.snapshots[number].name));
        self.stats.offered = self.stats.offered.saturating_sub(1);
    }

    /// The receiver has another snapshot of this name.
    pub(super) fn refuse(&mut self, number: usize, monitor: &dyn Monitor) {
        self.is_wanted[number] = false;
        let error = Error::failed(format!("send the snapshot {}", self.snapshots[number].name));
        let hint = "the receiver has another snapshot of this name, or does not know its origin any more: compare them";
        self.problem(error.hint(hint).with_code("other-snapshot"), monitor);
    }

    /// A snapshot could not be sent. Without a base, each further one would be sent as a whole, so the work ends.
    pub(super) fn failed(
        &mut self,
        number: usize,
        is_based: bool,
        error: Error,
        monitor: &dyn Monitor,
    ) -> Result<Turn> {
        self.is_wanted[number] = false;
        let name = &self.snapshots[number].name;
        let is_damaged = error.kind() == ErrorKind::Damage;
        let is_named = error.class().contains(&format!("the snapshot {name}"));
        let error = if is_named { error } else { error.hint_also(&format!("the snapshot {name} was not sent")) };
        let error = if is_damaged { error.advise(Advice::VerifySnapshots) } else { error };
        if !is_based {
            return Err(error.hint_also("name other snapshots to begin with these"));
        }
        self.problem(error, monitor);
        Ok(Turn::Again)
    }

    fn problem(&mut self, error: Error, monitor: &dyn Monitor) {
        self.stats.errors += 1;
        self.stats.is_damaged |= error.kind() == ErrorKind::Damage;
        monitor.problem(&error);
    }
}
