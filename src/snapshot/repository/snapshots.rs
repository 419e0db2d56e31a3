//! The list of snapshots, and the snapshot that an `ID` means.

use super::dir::os;
use super::handle::Repository;
use super::layout::LATEST;
use super::marks::marks;
use super::name::check_name;
use crate::error::{Advice, Error, Result};
use crate::monitor::{Event, Monitor};
use crate::snapshot::manifest::{Header, Summary, Totals};
use crate::util::text;
use rustix::fs::{Mode, OFlags};
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// How many candidates an error names.
const SHOWN: usize = 5;

/// A snapshot, without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// The description in its manifest.
    pub header: Header,
    /// Its sums.
    pub totals: Totals,
}

/// The snapshots of a repository.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    /// The snapshots with intact manifests, oldest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// The names of the other snapshots.
    pub unlisted: Vec<String>,
    /// The reasons why these could not be listed, one for each.
    pub problems: Vec<Error>,
}

impl SnapshotInfo {
    /// Whether this absolute path is one of its sources, or lies in one.
    pub(crate) fn has_source(&self, path: &Path) -> bool {
        self.sources().any(|source| path.starts_with(source))
    }

    /// Whether it may have something of this path: one of its sources is the path, above it or below it.
    pub(crate) fn may_have(&self, path: &Path) -> bool {
        self.sources().any(|source| path.starts_with(source) || source.starts_with(path))
    }

    /// Its sources.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Path> {
        self.header.sources.iter().map(|source| Path::new(OsStr::from_bytes(source)))
    }
}

impl Repository {
    /// All snapshots, ordered by the time when they were begun, then by name. Reads a few hundred bytes of each.
    pub(crate) fn listing(&self) -> Result<SnapshotList> {
        let mut listing = SnapshotList::default();
        for name in self.snapshot_names()? {
            match self.info(&name) {
                Ok(info) => listing.snapshots.push(info),
                // It was removed since its name was read.
                Err(_) if !self.has_snapshot(&name).unwrap_or(true) => {}
                Err(error) => {
                    listing.unlisted.push(name);
                    listing.problems.push(error);
                }
            }
        }
        // The names are already sorted, and this sort is stable.
        listing.snapshots.sort_by_key(|info| info.header.created);
        Ok(listing)
    }

    /// The names of all snapshots, sorted. A snapshot exists if its manifest and its tree exist.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub fn snapshot_names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for name in self.manifests.names()? {
            if let Ok(name) = String::from_utf8(name)
                && self.may_have_tree(&name)
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Whether [`snapshot_names`](Self::snapshot_names) has this name.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub(crate) fn has_snapshot(&self, name: &str) -> Result<bool> {
        Ok(self.may_have_tree(name) && self.manifests.stat(name)?.is_some())
    }

    /// Whether something has this name and is not a snapshot: a tree without a manifest, or something else in the place
    /// of a tree.
    fn is_lost(&self, name: &str) -> Result<bool> {
        // In this order, because a tree goes before its manifest.
        Ok(check_name(name).is_ok() && !self.has_snapshot(name)? && self.root.stat(name)?.is_some())
    }

    /// A tree that cannot be checked is not hidden: reading it reports the reason.
    fn may_have_tree(&self, name: &str) -> bool {
        check_name(name).is_ok() && self.root.has_tree(name).unwrap_or(true)
    }

    /// The names of directories that look like the tree of a snapshot and have no manifest, sorted. A snapshot is
    /// published with its manifest first, and deleted with its tree first.
    pub(crate) fn trees_without_manifest(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for name in self.root.names()? {
            if let Ok(name) = String::from_utf8(name)
                && check_name(&name).is_ok()
                && self.root.has_tree(&name)?
                && self.manifests.stat(&name)?.is_none()
                && self.root.has_tree(&name)?
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The names of manifests without a tree, sorted: somebody deleted or renamed the tree, or a removal was killed.
    pub(super) fn manifests_without_tree(&self) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for name in self.manifests.names()? {
            let may_be_snapshot = std::str::from_utf8(&name).is_ok_and(|name| check_name(name).is_ok());
            let has_tree =
                if may_be_snapshot { self.root.stat(os(&name))?.is_some() } else { self.root.has_dir(os(&name))? };
            if !has_tree {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The names of manifests with something else in the place of their tree, sorted: somebody may have moved the tree
    /// elsewhere, and made a link to it. These manifests stay.
    pub(crate) fn manifests_with_other_tree(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for name in self.manifests.names()? {
            if let Ok(name) = String::from_utf8(name)
                && check_name(&name).is_ok()
                && !self.root.has_tree(&name)?
                && self.root.stat(&name)?.is_some()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Reports the directories that look like the tree of a snapshot and have no manifest, and the manifests with
    /// something else in the place of their tree.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub(crate) fn report_strays(&self, monitor: &dyn Monitor) -> Result<()> {
        let strays = self.trees_without_manifest()?;
        if let Some(first) = strays.first() {
            let missing = self.manifests_without_tree()?;
            let missing = missing.first().map(|name| String::from_utf8_lossy(name));
            let (path, more) = (self.path().join(first), strays.len() as u64 - 1);
            monitor.event(Event::Stray { path: &path, more, missing: missing.as_deref() });
        }
        self.report_other_trees(&self.manifests_with_other_tree()?, monitor);
        Ok(())
    }

    /// Reports these names of [`manifests_with_other_tree`](Self::manifests_with_other_tree).
    pub(crate) fn report_other_trees(&self, names: &[String], monitor: &dyn Monitor) {
        if let Some(first) = names.first() {
            let (path, more) = (self.path().join(first), names.len() as u64 - 1);
            monitor.event(Event::OtherTree { path: &path, more });
        }
    }

    /// Whether nothing is left of a snapshot, and files about it are leftovers. The manifest counts alone, since its
    /// tree may have been renamed by somebody who will rename it back.
    pub(super) fn is_gone(&self, name: &OsStr) -> Result<bool> {
        Ok(self.manifests.stat(name)?.is_none())
    }

    /// Whether this open directory still is the tree of the snapshot `name`. If that cannot be found out, as on a
    /// filesystem that has failed, it is.
    pub(crate) fn has_tree(&self, name: &str, tree: impl AsFd) -> bool {
        let (Ok(here), Ok(open)) = (self.root.stat(name), rustix::fs::fstat(tree)) else { return true };
        here.is_some_and(|here| (here.st_dev, here.st_ino) == (open.st_dev, open.st_ino))
    }

    /// The name of the snapshot that `id` means: a name, the beginning of exactly one name, `latest`, or `latest:PATH`.
    /// The last form means the newest snapshot with this path among its sources or in one of them.
    ///
    /// # Errors
    /// Kind `Failed` if `id` means no snapshot or several. Kind `Damage` if the manifest of that snapshot is damaged.
    pub fn find(&self, id: &str) -> Result<String> {
        Ok(self.resolve(id)?.name)
    }

    /// One snapshot by its whole name.
    pub(crate) fn info(&self, name: &str) -> Result<SnapshotInfo> {
        check_name(name)?;
        let file = self.manifests.file(name, OFlags::RDONLY, Mode::empty())?;
        let Summary { mut header, totals, .. } = Summary::read(&file, &self.manifests.join(name))?;
        // If somebody renamed both, the directory's name counts.
        header.name = name.to_string();
        Ok(SnapshotInfo { name: name.to_string(), header, totals })
    }

    /// The snapshot that `id` means: a name, the beginning of exactly one name, `latest`, or `latest:PATH`. The last
    /// form means the newest snapshot with this path among its sources or in one of them.
    ///
    /// # Errors
    /// Kind `Failed` if `id` means no snapshot or several. Kind `Damage` if the manifest of that snapshot is damaged
    /// or, for `latest`, if a snapshot with a damaged manifest might be the newest.
    pub(crate) fn resolve(&self, id: &str) -> Result<SnapshotInfo> {
        self.info(&self.name_of(id)?)
    }

    /// The name that `id` means, also of a snapshot with a damaged manifest.
    ///
    /// # Errors
    /// Like [`resolve`](Self::resolve), except that the manifest of a snapshot that is named is not read.
    pub(crate) fn name_of(&self, id: &str) -> Result<String> {
        if id == LATEST {
            return Ok(self.latest(|_| true)?.name);
        }
        let names = self.snapshot_names()?;
        if let Some(path) = id.strip_prefix("latest:")
            // Snapshots with such names were once allowed. A path has a slash, a name has none.
            && !names.iter().any(|name| name == id)
        {
            return Ok(self.latest_of(Path::new(path))?.name);
        }
        if names.iter().any(|name| name == id) {
            return Ok(id.to_string());
        }
        let candidates: Vec<&String> = names.iter().filter(|name| !id.is_empty() && name.starts_with(id)).collect();
        let shown = text::escape(OsStr::new(id));
        match candidates[..] {
            [] => {
                let error = Error::failed(format!("find a snapshot '{shown}' in")).at(self.path());
                Err(match self.alternative(id, &names) {
                    _ if names.is_empty() => error.hint("it has none"),
                    None => error.advise(Advice::ListSnapshots),
                    Some(hint) => error.hint(hint).advise(Advice::ListSnapshots),
                })
            }
            [name] => Ok(name.clone()),
            _ => {
                let mut list: Vec<String> =
                    candidates.iter().take(SHOWN).map(|name| text::path(os(name.as_bytes()).as_ref())).collect();
                if candidates.len() > SHOWN {
                    list.push(format!("{} more", candidates.len() - SHOWN));
                }
                Err(Error::failed(format!("choose a snapshot for '{shown}' in"))
                    .at(self.path())
                    .hint(format!("it could be {}", list.join(", "))))
            }
        }
    }

    /// What an ID may mean that no name begins with, in words: a tag, or a name that has most of it.
    fn alternative(&self, id: &str, names: &[String]) -> Option<String> {
        let shown = |name: &str| text::path(os(name.as_bytes()).as_ref());
        let snapshots = self.listing().map(|listing| listing.snapshots).unwrap_or_default();
        // Tags that cannot be read are not a reason to fail.
        let tags = |info: &SnapshotInfo| marks(self, &info.name, &info.header.tags).unwrap_or_default().tags;
        let mut tagged = snapshots.iter().rev().filter(|info| tags(info).iter().any(|tag| tag == id));
        if let Some(newest) = tagged.next() {
            let more = if tagged.next().is_some() { " and others" } else { "" };
            return Some(format!("{} is a tag, of {}{more}", shown(id), shown(&newest.name)));
        }
        // The name with the longest common beginning; among equal ones, the newest.
        let known = [LATEST].into_iter().chain(names.iter().map(String::as_str));
        let near = known.map(|name| (common(name.as_bytes(), id.as_bytes()), name)).max_by_key(|(common, _)| *common);
        near.filter(|(common, _)| 2 * common > id.len()).map(|(_, name)| format!("the nearest is {}", shown(name)))
    }

    /// [`resolve`](Self::resolve) for a command on these absolute paths: `latest` is then the newest snapshot that has
    /// all of them. If that is not the newest of all, the monitor gets a notice.
    pub(crate) fn resolve_for(&self, id: &str, paths: &[PathBuf], monitor: &dyn Monitor) -> Result<SnapshotInfo> {
        if id != LATEST || paths.is_empty() {
            return self.resolve(id);
        }
        let newest = self.resolve(id)?;
        // If it cannot be read, it may have them, and the command reports the reason.
        if self.has_all(&newest, paths).unwrap_or(true) {
            return Ok(newest);
        }
        for found in self.listing()?.snapshots.into_iter().rev() {
            match self.has_all(&found, paths) {
                Ok(true) => {
                    monitor.event(Event::OlderSnapshot { newest: &newest.name, used: &found.name, paths });
                    return Ok(found);
                }
                Ok(false) => {}
                // It was removed meanwhile.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.hint("it may have the path: give a name instead of `latest`")),
            }
        }
        // The error of the newest snapshot names the missing path.
        Ok(newest)
    }

    /// Whether a snapshot has all these paths.
    fn has_all(&self, info: &SnapshotInfo, paths: &[PathBuf]) -> Result<bool> {
        if !paths.iter().all(|path| info.may_have(path)) {
            return Ok(false);
        }
        let manifest = self.manifest(&info.name)?;
        for path in paths {
            let names: Vec<&[u8]> = path
                .components()
                .filter_map(|component| match component {
                    Component::Normal(name) => Some(name.as_bytes()),
                    _ => None,
                })
                .collect();
            let is_entry = || {
                let Some((name, above)) = names.split_last() else { return Ok(false) };
                Ok::<_, Error>(manifest.entry(&above.join(&b'/'), name)?.is_some())
            };
            if manifest.directory(&names.join(&b'/'))?.is_none() && !is_entry()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The newest snapshot that has a path among its sources or in one of them.
    fn latest_of(&self, path: &Path) -> Result<SnapshotInfo> {
        let action = || format!("find the latest snapshot of {} in", text::path(path));
        if !path.is_absolute() {
            return Err(Error::usage(action()).at(self.path()).hint("after `latest:` an absolute path is needed"));
        }
        let plain: PathBuf = path.components().collect();
        // The path may lead through a link: snapshots have the link's target.
        let resolved = plain.canonicalize().ok().filter(|resolved| *resolved != plain);
        let has = |info: &SnapshotInfo| {
            info.has_source(&plain) || resolved.as_ref().is_some_and(|resolved| info.has_source(resolved))
        };
        let listing = self.listing()?;
        if listing.problems.is_empty() && !listing.snapshots.iter().any(has) {
            let mut sources: Vec<&Path> = listing.snapshots.iter().flat_map(SnapshotInfo::sources).collect();
            sources.sort_unstable();
            sources.dedup();
            // Sources with the longest common beginning come first.
            sources.sort_by_key(|source| Reverse(common(source.as_os_str().as_bytes(), plain.as_os_str().as_bytes())));
            let shown = sources.into_iter().take(SHOWN).map(text::path).collect::<Vec<_>>().join(", ");
            let hint = if shown.is_empty() { "it has none".into() } else { format!("there are snapshots of {shown}") };
            return Err(Error::failed(action()).at(self.path()).hint(hint));
        }
        self.latest(has)
    }

    /// The newest snapshot that is `wanted`.
    fn latest(&self, wanted: impl Fn(&SnapshotInfo) -> bool) -> Result<SnapshotInfo> {
        let mut listing = self.listing()?;
        // The link is moved last. If it names the newest intact snapshot, every damaged one is older.
        let linked = rustix::fs::readlinkat(&self.root, LATEST, Vec::new()).ok();
        let newest = listing.snapshots.last().map(|info| info.name.as_bytes());
        let is_sure = newest.is_some() && linked.as_ref().map(|name| name.as_bytes()) == newest;
        if let Some(problem) = listing.problems.pop().filter(|_| !is_sure) {
            return Err(problem.hint("the newest snapshot may be this one: give a name instead of `latest`"));
        }
        if let Some(name) = linked.as_ref().and_then(|name| name.to_str().ok()).filter(|_| !is_sure)
            && self.is_lost(name)?
        {
            let hint = "it was the newest snapshot, but is not a snapshot any more: give a name instead of `latest`";
            return Err(Error::failed("use the latest snapshot").at(self.path().join(name)).hint(hint));
        }
        let found = listing.snapshots.into_iter().rev().find(wanted);
        found.ok_or_else(|| Error::failed("find a snapshot in").at(self.path()).hint("it has none"))
    }
}

/// How many first bytes two texts have in common.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
