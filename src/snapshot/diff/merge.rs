//! Passes two sorted streams in step: the records of the old snapshot, and those of the new one as they arrive.

use super::changes::{Changes, path_of};
use super::live::Unread;
use super::stream::{Located, Stream};
use crate::error::Result;
use crate::fs::identity::Identity;
use crate::monitor::{Amount, Change, Monitor};
use crate::snapshot::compare_records::{Judge, meta, name};
use crate::snapshot::manifest::{Item, compare_paths};
use crate::snapshot::skipped::Skipped;
use std::cmp::Ordering;

/// The merge of the two streams.
pub(super) struct Merge<'a, 'r> {
    old: Stream<'a>,
    /// The old record that has not been passed, and whether records before it were lost.
    ahead: Option<Located>,
    has_old_gap: bool,
    has_new_gap: bool,
    /// Directories of the live tree that could not be read.
    unread: Option<&'a Unread>,
    /// What the new snapshot lacks, if it is incomplete.
    skipped: Option<&'a Skipped>,
    judge: Judge<'a>,
    changes: Changes<'r>,
    monitor: &'a dyn Monitor,
    errors: u64,
}

impl<'a, 'r> Merge<'a, 'r> {
    pub(super) fn new(
        old: Stream<'a>,
        judge: Judge<'a>,
        changes: Changes<'r>,
        unread: Option<&'a Unread>,
        skipped: Option<&'a Skipped>,
        monitor: &'a dyn Monitor,
    ) -> Self {
        let (ahead, has_old_gap, has_new_gap, errors) = (None, false, false, 0);
        let mut merge =
            Merge { old, ahead, has_old_gap, has_new_gap, unread, skipped, judge, changes, monitor, errors };
        merge.read_old();
        merge
    }

    /// Records of the new stream before the next one were lost.
    pub(super) fn note_gap(&mut self) {
        self.has_new_gap = true;
        self.errors += 1;
    }

    /// Takes the next record of the new stream.
    pub(super) fn push(&mut self, directory: &[u8], item: &Item) -> Result<()> {
        let is_paired = self.pass(Some((directory, item)))?;
        self.has_new_gap = false;
        self.monitor.advance(Amount { files: 1, bytes: 0 });
        if !is_paired && !self.has_old_gap {
            self.changes.added(directory, item, self.judge.new.identity(meta(item)))?;
        }
        Ok(())
    }

    /// Passes the rest of the old stream. Returns the changes, and how many parts could not be compared.
    pub(super) fn finish(mut self) -> Result<(Changes<'r>, u64)> {
        self.pass(None)?;
        Ok((self.changes, self.errors))
    }

    /// Passes the old records before `new`, or all of them, and the counterpart of `new`. Returns whether it has one.
    fn pass(&mut self, new: Option<(&[u8], &Item)>) -> Result<bool> {
        while let Some((directory, old)) = &self.ahead {
            let order = new.map_or(Ordering::Less, |(new_directory, new)| {
                compare_paths(directory, new_directory).then_with(|| name(old).cmp(name(new)))
            });
            match (order, new) {
                (Ordering::Equal, Some((_, new))) => {
                    let mut failures = 0;
                    let monitor = self.monitor;
                    let change = self.judge.judge(directory, (old, new), &mut |error| {
                        monitor.problem(error);
                        failures += 1;
                    });
                    self.errors += failures;
                    if let Some(change) = change {
                        self.changes.changed(directory, change, (old, new))?;
                    }
                    self.read_old();
                    return Ok(true);
                }
                (Ordering::Less, _) => {
                    let is_unread = || self.unread.is_some_and(|unread| unread.has(directory));
                    if is_skipped(self.skipped, directory, old) {
                        self.changes.add(directory, Change::Unreadable, (Some(old), None), None)?;
                    } else if !self.has_new_gap && !is_unread() {
                        self.changes.removed(directory, old, self.judge.old.identity(meta(old)))?;
                    }
                    self.read_old();
                }
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn read_old(&mut self) {
        let (monitor, mut errors) = (self.monitor, 0);
        (self.ahead, self.has_old_gap) = self.old.next(&mut |error| {
            monitor.problem(error);
            errors += 1;
        });
        self.errors += errors;
    }
}

/// Whether the run of a snapshot skipped an entry with an error.
fn is_skipped(skipped: Option<&Skipped>, directory: &[u8], item: &Item) -> bool {
    skipped.is_some_and(|skipped| skipped.has(&path_of(directory, name(item))))
}

impl Changes<'_> {
    /// Adds an entry that both snapshots have.
    fn changed(&mut self, directory: &[u8], change: Change, (old, new): (&Item, &Item)) -> Result<()> {
        self.add(directory, change, (Some(old), Some(new)), None)
    }

    fn added(&mut self, directory: &[u8], new: &Item, identity: Option<Identity>) -> Result<()> {
        self.add(directory, Change::Added, (None, Some(new)), identity)
    }

    fn removed(&mut self, directory: &[u8], old: &Item, identity: Option<Identity>) -> Result<()> {
        self.add(directory, Change::Removed, (Some(old), None), identity)
    }
}
