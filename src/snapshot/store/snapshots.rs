//! Which snapshots there are, and which of them an `ID` means.

use super::dir::os;
use super::{LATEST, Repository, check_name};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::snapshot::manifest::{Header, Summary, Totals};
use crate::text;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;

/// How many candidates an error names.
const SHOWN: usize = 5;

/// A snapshot, without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// What its manifest says of it.
    pub header: Header,
    /// Its sums.
    pub totals: Totals,
}

/// The snapshots of a repository.
#[derive(Debug, Default)]
pub struct Listing {
    /// Those whose manifests are whole, oldest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// Why others could not be listed, one each.
    pub problems: Vec<Error>,
}

impl Repository {
    /// [`listing`](Self::listing) that tells the problems to the monitor.
    pub fn snapshots(&self, monitor: &dyn Monitor) -> Result<Vec<SnapshotInfo>> {
        let listing = self.listing()?;
        listing.problems.iter().for_each(|problem| monitor.problem(problem));
        Ok(listing.snapshots)
    }

    /// All snapshots, by the moment they were begun, then by name. Reads a few hundred bytes of each.
    pub fn listing(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for name in self.snapshot_names()? {
            match self.info(&name) {
                Ok(info) => listing.snapshots.push(info),
                Err(error) => listing.problems.push(error),
            }
        }
        // The names were sorted, and the sort keeps the order of equals.
        listing.snapshots.sort_by_key(|info| info.header.created);
        Ok(listing)
    }

    /// The names of all snapshots, sorted. A snapshot is there if its manifest and its tree are.
    pub fn snapshot_names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for name in self.manifests.names()? {
            if let Ok(name) = String::from_utf8(name)
                && check_name(&name).is_ok()
                && self.root.has_dir(&name)?
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// One snapshot by its whole name.
    pub fn info(&self, name: &str) -> Result<SnapshotInfo> {
        check_name(name)?;
        let file = self.manifests.file(name, OFlags::RDONLY, Mode::empty())?;
        let Summary { mut header, totals } = Summary::read(&file, &self.manifests.join(name))?;
        // The directory's name counts, should someone have renamed both.
        header.name = name.to_string();
        Ok(SnapshotInfo { name: name.to_string(), header, totals })
    }

    /// The snapshot that `id` means: a name, the beginning of exactly one, or `latest`.
    ///
    /// # Errors
    /// Kind `Failed` if it means none or several; kind `Damage` if that snapshot's manifest is damaged, or, for `latest`,
    /// any is: the newest might be that one.
    pub fn resolve(&self, id: &str) -> Result<SnapshotInfo> {
        if id == LATEST {
            return self.latest();
        }
        let names = self.snapshot_names()?;
        if names.iter().any(|name| name == id) {
            return self.info(id);
        }
        let candidates: Vec<&String> = names.iter().filter(|name| !id.is_empty() && name.starts_with(id)).collect();
        let shown = text::escape(OsStr::new(id));
        match candidates[..] {
            [] => Err(Error::failed(format!("find a snapshot '{shown}' in"))
                .at(self.path())
                .hint(if names.is_empty() { "it has none" } else { "`pleach list` shows which there are" })),
            [name] => self.info(name),
            _ => {
                let mut list: Vec<String> =
                    candidates.iter().take(SHOWN).map(|name| text::path(os(name.as_bytes()).as_ref())).collect();
                if candidates.len() > SHOWN {
                    list.push(format!("{} more", candidates.len() - SHOWN));
                }
                Err(Error::failed(format!("tell which snapshot '{shown}' means in"))
                    .at(self.path())
                    .hint(format!("it could be {}", list.join(", "))))
            }
        }
    }

    fn latest(&self) -> Result<SnapshotInfo> {
        let mut listing = self.listing()?;
        if let Some(problem) = listing.problems.pop() {
            return Err(problem.hint("so the newest snapshot cannot be told: give a name instead of `latest`"));
        }
        listing.snapshots.pop().ok_or_else(|| Error::failed("find a snapshot in").at(self.path()).hint("it has none"))
    }
}
