//! What every part of a report needs.

use super::options::Options;
use crate::error::{Error, Result};
use crate::monitor::{Event, Monitor};
use crate::snapshot::list;
use crate::snapshot::prune::calendar::Calendar;
use crate::snapshot::repository::Repository;
use std::path::Path;

/// What every part of a report needs.
pub(super) struct Work<'a> {
    pub(super) repo: &'a Path,
    pub(super) repository: &'a Repository,
    pub(super) options: &'a Options,
    pub(super) calendar: &'a Calendar,
    pub(super) monitor: &'a dyn Monitor,
}

impl Work<'_> {
    /// The result of a part of the report. Only an interruption ends the others.
    pub(super) fn or_report<T>(&self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) if self.monitor.is_cancelled() => Err(error),
            Err(error) => {
                self.monitor.problem(&error);
                Ok(None)
            }
        }
    }

    /// The result of a part that reads these snapshots. If one of them was deleted meanwhile, that is not a failure.
    pub(super) fn of_snapshots<T>(&self, names: &[&str], result: Result<T>) -> Result<Option<T>> {
        let is_deleted = |name: &&&str| list::is_deleted(self.repository, name);
        if result.is_ok() || self.monitor.is_cancelled() {
            return self.or_report(result);
        }
        match names.iter().find(is_deleted) {
            Some(name) => {
                self.monitor.event(Event::SnapshotNotMeasured(name));
                Ok(None)
            }
            None => self.or_report(result),
        }
    }

    pub(super) fn check_cancelled(&self) -> Result<()> {
        if self.monitor.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }
}
