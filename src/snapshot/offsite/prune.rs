//! Removes snapshots from a store that no rule keeps, and the data that only they used. The rules are those of `prune`.

use super::held::Held;
use super::progress::watch;
use super::store::{Access, Store};
use super::stored::{Snapshot, Stored};
use super::{guard, library_log};
use crate::error::{Advice, Error, ErrorKind, Result, Stopped};
use crate::monitor::Monitor;
use crate::snapshot::manifest::Time;
use crate::snapshot::prune::calendar::Calendar;
use crate::snapshot::prune::policy::{Candidate, reasons};
use crate::snapshot::prune::{Keep, Reason};
use rustic_core::LimitOption;
use rustic_core::repofile::SnapshotId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Instant;

/// How a store is pruned.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct PruneOptions {
    /// The rules. A rule about free space does not apply.
    pub keep: Keep,
    /// Change nothing.
    pub dry_run: bool,
    /// Free the space at once. No other program may use the store meanwhile.
    pub now: bool,
    /// The time zone of days and weeks, as in [`crate::snapshot::prune::Options`].
    pub time_zone: Option<String>,
    /// Fail if the local time zone cannot be found.
    pub require_local_time: bool,
}

/// A snapshot, and why it is kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// Why it is kept. Without a reason it goes. [`Reason::Failed`]: it should go, and was not removed.
    pub reasons: Vec<Reason>,
}

/// The result.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PruneStats {
    /// The snapshots of pleach, oldest first.
    pub rows: Vec<Row>,
    /// Bytes that were freed or, in a dry run, would be.
    pub freed_bytes: u64,
    /// Bytes that nothing uses any more, and that a later run frees: other programs may be about to use them.
    pub later_bytes: u64,
    /// Problems.
    pub errors: u64,
    /// How long it took.
    pub seconds: f64,
}

/// A prune that ended early.
pub type PruneStopped = Stopped<PruneStats>;

impl PruneStats {
    /// The snapshots that go.
    pub fn removed(&self) -> u64 {
        self.rows.iter().filter(|row| row.reasons.is_empty()).count() as u64
    }
}

/// Removes the snapshots of pleach that no rule keeps. Each group of snapshots, those of the same machine and the same
/// set of sources, is judged on its own, and the newest of each always stays. Snapshots of other programs stay. A
/// snapshot that was sent again because the store lacked files of it goes.
///
/// # Errors
/// If there is no rule, or the store cannot be read or refuses, or the run is cancelled. If snapshots are removed by
/// then, [`PruneStopped`] has the counts. Once all of them are, a failure is reported to the monitor and counted: a
/// later run frees the space.
pub fn prune(access: &Access, options: &PruneOptions, monitor: &dyn Monitor) -> Result<PruneStats, PruneStopped> {
    let begun = Instant::now();
    if options.keep.is_empty() {
        return Err(Error::usage("prune without a rule").advise(Advice::GiveRule).into());
    }
    let calendar = Calendar::new(options.time_zone.as_deref(), options.require_local_time)?;
    let store = Store::open(access, monitor)?;
    let held = Held::read(&store)?;
    // Nobody knows which data a snapshot needs that cannot be read.
    if let Some(error) = held.errors(&store).next() {
        return Err(error.into());
    }
    let stored: Vec<_> = held.all.into_iter().filter(|stored| stored.name.is_some()).collect();
    let mut rows = judged(&stored, &options.keep, &calendar);
    let going: Vec<SnapshotId> =
        stored.iter().zip(&rows).filter(|(_, row)| row.reasons.is_empty()).map(|(stored, _)| stored.file.id).collect();
    let action = "prune the store";
    let mut library = rustic_core::PruneOptions::default();
    library.instant_delete = options.now;
    // As restic does: at most 5 % of the data is unused afterwards.
    library.max_repack = LimitOption::Unlimited;
    let (result, _) = watch(
        &store.counts,
        Some("pruning"),
        monitor,
        || store.watch.end(),
        || {
            library.ignore_snaps.clone_from(&going);
            // It reads the store, so a damaged one loses no snapshot.
            let plan = store.repository.prune_plan(&library)?;
            if !options.dry_run && !going.is_empty() {
                store.repository.delete_snapshots(&going)?;
            }
            let (size, marked) = (plan.stats.size_sum(), plan.stats.size_to_delete);
            // What an earlier run marked and must stay for now goes too if there is no other program to wait for.
            let unused = size.remove + size.repackrm + plan.stats.size_unref + marked.keep;
            let sizes = if options.now { (marked.remove + unused, 0) } else { (marked.remove, unused) };
            if !options.dry_run {
                store.repository.prune(&library, plan)?;
            }
            Ok(sizes)
        },
    )?;
    let gone = store.watch.removed();
    let mut has_left = false;
    if !options.dry_run {
        let going = stored.iter().zip(&mut rows).filter(|(_, row)| row.reasons.is_empty());
        for (_, row) in going.filter(|(stored, _)| !gone.contains(&*stored.file.id)) {
            row.reasons.push(Reason::Failed);
            has_left = true;
        }
    }
    let result = match (store.failure(), result) {
        _ if monitor.is_cancelled() => Err(Error::interrupted()),
        (Some(error), _) => Err(error),
        (None, Ok(result)) => result.map_err(store.fault(action)),
        (None, Err(panic)) => Err(guard::error(&format!("{action} {}", store.url), &*panic)),
    };
    let mut stats = PruneStats { rows, seconds: begun.elapsed().as_secs_f64(), ..PruneStats::default() };
    match result {
        Ok((freed, later)) => (stats.freed_bytes, stats.later_bytes) = (freed, later),
        Err(error) if gone.is_empty() => return Err(error.into()),
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(Stopped::after(error, stats)),
        Err(error) if has_left => {
            return Err(Stopped::after(
                error.hint_also("some snapshots were not removed; the next run continues"),
                stats,
            ));
        }
        Err(error) if error.kind() == ErrorKind::Damage => {
            return Err(Stopped::after(error.hint_also("the snapshots are removed"), stats));
        }
        Err(error) => {
            stats.errors += 1;
            monitor.problem(&error.hint_also("the snapshots are removed; the next run frees their space"));
        }
    }
    let messages = library_log::take();
    for message in &messages {
        monitor.problem(&Error::failed(action).because(io::Error::other(message.as_str())));
    }
    stats.errors += messages.len() as u64;
    Ok(stats)
}

/// The snapshots with the reasons to keep them.
fn judged(stored: &[Stored], keep: &Keep, calendar: &Calendar) -> Vec<Row> {
    let mut groups = BTreeMap::new();
    let candidates: Vec<_> = stored
        .iter()
        .map(|stored| {
            let sources: BTreeSet<&String> = stored.file.paths.iter().collect();
            let next = groups.len();
            Candidate {
                name: stored.name.clone().unwrap_or_default(),
                created: stored.created(),
                is_complete: !stored.is_incomplete(),
                group: *groups.entry((&stored.file.hostname, sources)).or_insert(next),
                tags: stored.tags(),
                pinned: false,
            }
        })
        .collect();
    let reasons = reasons(&candidates, keep, Time::now(), calendar);
    let row = |(one, reasons): (&Stored, Vec<Reason>)| {
        let reasons = if one.is_superseded(stored) { Vec::new() } else { reasons };
        one.snapshot().map(|snapshot| Row { snapshot, reasons })
    };
    stored.iter().zip(reasons).filter_map(row).collect()
}
