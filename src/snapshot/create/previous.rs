//! The earlier snapshot that a new one is compared with: the newest one of the same sources with an intact manifest.

use crate::error::{Error, ErrorKind, Result};
use crate::monitor::Monitor;
use crate::snapshot::manifest::{Header, Reader, Time};
use crate::snapshot::repository::Repository;
use crate::tree::walk::Sources;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// The snapshot that a new one is compared with.
pub(super) struct Previous {
    pub(super) reader: Reader,
    pub(super) tree: OwnedFd,
}

/// The snapshots that a new one can be compared with.
pub(super) struct Candidates<'r> {
    repository: &'r Repository,
    /// Their names, the best last.
    names: Vec<String>,
    /// The time of the newest snapshot of all.
    pub(super) newest: Option<Time>,
}

impl<'r> Candidates<'r> {
    /// Prefers snapshots of exactly these sources, then snapshots with one of them; in each group the newest comes
    /// first.
    ///
    /// Reports and skips a snapshot if its manifest is damaged at the beginning or end.
    pub(super) fn of(repository: &'r Repository, sources: &Sources, monitor: &dyn Monitor) -> Result<Self> {
        let wanted: Vec<&[u8]> = sources.paths().iter().map(|path| path.as_os_str().as_bytes()).collect();
        let listing = repository.listing()?;
        let has = |header: &Header| header.sources.iter().filter(|source| wanted.contains(&source.as_slice())).count();
        let is_same = |header: &Header| has(header) == wanted.len() && header.sources.len() == wanted.len();
        let (same, others): (Vec<_>, Vec<_>) =
            listing.snapshots.iter().map(|info| &info.header).partition(|header| is_same(header));
        let others = others.into_iter().filter(|header| has(header) > 0);
        let names = others.chain(same).map(|header| header.name.clone()).collect();
        let newest = listing.snapshots.iter().map(|info| info.header.created).max();
        let candidates = Candidates { repository, names, newest };
        listing.problems.into_iter().for_each(|problem| candidates.pass_over(problem, monitor));
        Ok(candidates)
    }

    /// Only the snapshot that `id` means.
    ///
    /// # Errors
    /// If `id` means no snapshot or several, or the manifest is damaged.
    pub(super) fn named(repository: &'r Repository, id: &str) -> Result<Self> {
        let name = repository.resolve(id)?.name;
        let newest = repository.listing()?.snapshots.iter().map(|info| info.header.created).max();
        Ok(Candidates { repository, names: vec![name], newest })
    }

    /// Opens the best snapshot and takes it from the list. A damaged one is reported and skipped.
    pub(super) fn open(&mut self, monitor: &dyn Monitor) -> Result<Option<Previous>> {
        while let Some(name) = self.names.pop() {
            let opened = self.repository.manifest(&name).and_then(|reader| {
                reader.check()?;
                Ok(Previous { tree: self.repository.tree(&name)?, reader })
            });
            match opened {
                Ok(previous) => return Ok(Some(previous)),
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                Err(error) => self.pass_over(error, monitor),
            }
        }
        Ok(None)
    }

    /// Reports a damaged manifest, and how the run continues without it.
    pub(super) fn pass_over(&self, damage: Error, monitor: &dyn Monitor) {
        let instead = match self.names.last() {
            Some(name) => format!("it is passed over: this snapshot is compared with {name} instead"),
            None => "it is passed over: with no other to compare with, a full snapshot is made".to_string(),
        };
        monitor.problem(&damage.hint(instead).keeping_entry());
    }
}
