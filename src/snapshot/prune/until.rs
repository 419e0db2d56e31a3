//! A removal until enough space is free: snapshots go one by one, oldest first, and no more than needed.

use super::Meter;
use super::enough::{After, Next, OTHERS_KEPT, fewest, opposite, shortage, wanted};
use super::keep::{Free, Reason};
use super::space::held_open;
use super::steps::Removal;
use crate::error::{Error, Result};
use crate::snapshot::repository::{self, Repository};

impl Removal<'_> {
    /// Removes these snapshots one by one, until that much space is free. It always waits for their space.
    ///
    /// # Errors
    /// As [`remove`](Self::remove). Before anything was removed also if that is impossible.
    pub(super) fn remove_until(&mut self, names: &[String], free: Free) -> Result<()> {
        let missing = |removal: &Self| {
            let failed = || Error::failed("find out the free space of").at(removal.repository.path());
            let space = repository::space(removal.repository.fd()).ok_or_else(failed)?;
            Ok::<u64, Error>(wanted(free, space.total).saturating_sub(space.free))
        };
        let total = repository::space(self.repository.fd()).map(|space| (space.total, wanted(free, space.total)));
        if total.is_some_and(|(total, wanted)| wanted >= total) {
            let error = Error::usage("keep more space free than there is on the filesystem of");
            return Err(error.at(self.repository.path()));
        }
        if self.is_dry_run {
            let names = self.not_in_use(names);
            let missing = missing(self)?;
            let fewest = fewest(names.len(), missing, |number| Ok(self.foretell(&names[..number])?.bytes))?;
            self.keep_for(&names[fewest..], &Reason::Free);
            self.freed = self.foretell(&names[..fewest])?;
            self.bound = opposite(self.freed.bound);
            if let Some(hint) = shortage(&self.freed, missing) {
                self.problem(&too_few(self.repository).hint(hint));
            }
            return Ok(());
        }
        let mut meter = Meter::begin(self.repository, true, self.monitor());
        let removed = self.remove_each(names, missing, &mut meter);
        if self.results.values().any(Option::is_none) {
            self.freed = meter.freed(self.repository);
        }
        removed
    }

    /// Removes these snapshots one by one, until no space is missing.
    fn remove_each(
        &mut self,
        names: &[String],
        missing: impl Fn(&Self) -> Result<u64>,
        meter: &mut Meter,
    ) -> Result<()> {
        let mut is_held = false;
        let mut lacking = missing(self)?;
        if lacking != 0 {
            // The filesystem may be freeing files at this moment that somebody has deleted or closed.
            meter.settle(self.repository, &[], self.monitor());
            if self.monitor().is_cancelled() {
                return Err(Error::interrupted());
            }
            lacking = missing(self)?;
        }
        if lacking == 0 {
            self.keep_for(names, &Reason::Free);
            return Ok(());
        }
        let held_before = held_open(self.repository);
        let mut rest = names;
        while let [name, later @ ..] = rest {
            if !meter.is_settled() {
                break;
            }
            let is_deleted = self.apply(std::slice::from_ref(name), meter)?;
            rest = later;
            lacking = match missing(self) {
                Ok(lacking) => lacking,
                Err(error) => {
                    // Nobody knows whether another one must go.
                    self.problem(&error);
                    self.keep_for(rest, &Reason::Failed);
                    return Ok(());
                }
            };
            let is_gone = self.results.get(name).is_some_and(Option::is_none);
            let after = After { is_gone, is_deleted, is_settled: meter.is_settled(), lacking };
            match after.next(|| held_open(self.repository).bytes_since(&held_before)) {
                Next::Another => {}
                Next::Stop | Next::Wait => break,
                Next::Held => {
                    meter.expect_more();
                    is_held = true;
                    break;
                }
            }
        }
        self.keep_for(rest, &Reason::Free);
        if lacking > 0 {
            let error = too_few(self.repository);
            let hint = if is_held {
                "the space of a removed snapshot is free when another process closes its files; run again then"
            } else if meter.is_settled() {
                OTHERS_KEPT
            } else {
                "the space of a removed snapshot is not free yet; run again later"
            };
            self.problem(&error.hint(hint));
        }
        Ok(())
    }
}

/// All snapshots that may be removed do not free enough space.
fn too_few(repository: &Repository) -> Error {
    Error::failed("free enough space in").at(repository.path())
}
