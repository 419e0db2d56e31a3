//! The results of a run, kept for the next run: 64 bytes for each candidate. The file is in `cache_file`, the layout in
//! `docs/dedupe.md`.
//!
//! An entry's key is a hash of filesystem, subvolume, inode, size, mtime and ctime, so a file that was written to has
//! another key. A file as young as the beginning of the run is not kept, since a later change could have the same
//! timestamp. A damaged cache, or one of another version, is built anew. A filesystem may be set back to an older
//! image; `witness` notices that.

use super::cache_file::{CacheFile, Content};
use super::catalogue::{Catalogue, FileId, Volume};
use super::entry::{Entry, Key};
use super::facts::{Facts, Member};
use super::ranges;
use super::run::{Run, add};
use crate::error::Result;
use crate::extents::map::Map;
use crate::fs::status::Time;
use crate::monitor::CacheFault;
use crate::util::mutex::{self, lock};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Entries that no run has met for this many runs are dropped.
const OLDEST: u8 = 30;

/// The cache of one run.
pub(super) struct Cache {
    file: Option<CacheFile>,
    /// Sorted by their keys.
    old: Vec<Entry>,
    /// For each old entry, whether this run met it and did not change it: such an entry is not stored twice.
    met: Vec<AtomicBool>,
    new: Mutex<Vec<Entry>>,
    /// When the run began.
    begun: Time,
}

impl Cache {
    /// No cache.
    pub(super) fn none() -> Cache {
        Cache { file: None, old: Vec::new(), met: Vec::new(), new: Mutex::default(), begun: Time::default() }
    }

    /// Reads the cache at `path`. If the cache cannot be used, this run replaces it and the reason is returned too.
    ///
    /// # Errors
    /// If something else than a cache is at that path: it must not be replaced.
    pub(super) fn open(path: PathBuf) -> Result<(Cache, Option<CacheFault>)> {
        let begun = Time::now();
        let (file, content) = CacheFile::open(path)?;
        let (old, unusable) = match content {
            Content::Absent => (Vec::new(), None),
            Content::Entries(old) => (old, None),
            Content::Unusable(fault) => (Vec::new(), Some(fault)),
        };
        let met = old.iter().map(|_| AtomicBool::new(false)).collect();
        Ok((Cache { file: Some(file), old, met, new: Mutex::default(), begun }, unusable))
    }

    /// The path of its file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(CacheFile::path)
    }

    /// The inode of the cache file, which the run must not touch.
    pub(super) fn inode(&self) -> Option<(u64, u64)> {
        self.file.as_ref()?.inode()
    }

    /// Waits until the clock of timestamps has left the tick of the youngest file, so that this run can keep its
    /// results for that file. Does not wait for files from the future.
    pub(super) fn outlast(&mut self, catalogue: &Catalogue) {
        /// Longer than any tick of that clock.
        const LONGEST: Duration = Duration::from_millis(40);
        const STEP: Duration = Duration::from_millis(1);
        let youngest = catalogue.ids().map(|file| catalogue.record(file).ctime()).max();
        let Some(youngest) = youngest.filter(|time| self.file.is_some() && *time >= self.begun) else { return };
        for _ in 0..LONGEST.as_millis() {
            let now = Time::now();
            if youngest < now {
                self.begun = now;
                return;
            }
            thread::sleep(STEP);
        }
    }

    /// Forgets all that was read from the file.
    pub(super) fn distrust(&mut self) {
        self.old.clear();
        self.met.clear();
    }

    /// Whether a run has kept something in this session of the filesystem. If so, nobody can have set the filesystem
    /// back since.
    pub(super) fn knows_session(&self, volume: &Volume) -> bool {
        volume.session.is_some_and(|session| self.find(&session_key(volume, session)).is_some())
    }

    /// Records that a run kept something in the present sessions of these filesystems.
    pub(super) fn keep_sessions(&self, volumes: &[Volume]) {
        for volume in volumes {
            if let Some(session) = volume.session {
                let entry = Entry { key: session_key(volume, session), facts: Facts::default(), age: 0 };
                lock(&self.new).push(entry);
            }
        }
    }

    /// The facts that an earlier run kept about a file.
    pub(super) fn known(&self, catalogue: &Catalogue, file: FileId) -> Option<Facts> {
        self.find(&key(catalogue, file)).map(|(old, _)| old.facts)
    }

    /// A candidate with all known facts about it.
    pub(super) fn member(&self, run: &Run<'_>, file: FileId) -> Member {
        let key = key(run.catalogue, file);
        let facts = self.find(&key).map(|(old, _)| Facts { moved: false, ..old.facts });
        if facts.is_some() {
            add(&run.counters.cache_hits, 1);
        }
        Member { file, identity: key.identity(), facts: facts.unwrap_or_default(), out: false }
    }

    /// The entry with this key in the cache as it was read, and the flag that marks it as met.
    fn find(&self, key: &Key) -> Option<(&Entry, &AtomicBool)> {
        let at = self.old.binary_search_by_key(key, |entry| entry.key).ok()?;
        self.old.get(at).zip(self.met.get(at))
    }

    /// Keeps the facts now known about a candidate.
    pub(super) fn keep(&self, run: &Run<'_>, member: &Member) {
        let is_settled = run.catalogue.record(member.file).ctime() < self.begun;
        let is_placed = !member.out && member.facts.layout != 0;
        if self.file.is_some() && is_settled && !member.facts.changing && (is_placed || member.facts.inline) {
            let entry = Entry { key: key(run.catalogue, member.file), facts: member.facts.lasting(), age: 0 };
            if let Some((old, met)) = self.find(&entry.key)
                && (Facts { moved: false, ..old.facts }) == entry.facts
            {
                return met.store(true, Ordering::Relaxed);
            }
            lock(&self.new).push(entry);
        }
    }

    /// Keeps the new places of files that got other extents for some ranges. The old entry would name blocks that may
    /// belong to another file by the next run.
    pub(super) fn keep_moved(&self, run: &Run<'_>) {
        if self.file.is_none() {
            return;
        }
        let mut moved: HashMap<Key, FileId> = run.moved().map(|file| (key(run.catalogue, file), file)).collect();
        let place = |facts: &mut Facts, file| {
            let opened = run.opener.open(file).ok();
            match opened.and_then(|opened| Map::of(&opened, run.space(file), false).ok()) {
                // Only the place, not the number of extents: a file that shares ranges with others is no worse a source
                // for having more extents.
                Some(map) => facts.set_place(file, &map),
                // The next run maps the file.
                None => facts.layout = 0,
            }
            facts.moved = true;
        };
        let mut new = lock(&self.new);
        for entry in new.iter_mut() {
            if let Some(file) = moved.remove(&entry.key) {
                place(&mut entry.facts, file);
            }
        }
        for (key, file) in moved {
            if let Some((old, _)) = self.find(&key) {
                let mut entry = Entry { age: 0, ..*old };
                place(&mut entry.facts, file);
                new.push(entry);
            }
        }
    }

    /// Whether a run read the blocks of exactly these files, in their present state, with these options.
    pub(super) fn knows_ranges(&self, run: &Run<'_>, options: &ranges::Options) -> bool {
        let key = self.file.as_ref().map(|_| set_key(run, options));
        let known = key.is_some_and(|key| self.find(&key).is_some());
        if known {
            self.keep_ranges(run, options);
        }
        known
    }

    /// Records that a run read the blocks of these files. Files as young as the run may change and keep the same
    /// timestamp.
    pub(super) fn keep_ranges(&self, run: &Run<'_>, options: &ranges::Options) {
        let is_old = |file: FileId| run.catalogue.record(file).ctime() < self.begun;
        if self.file.is_some() && ranges_files(run, options).all(is_old) {
            let entry = Entry { key: set_key(run, options), facts: Facts::default(), age: 0 };
            lock(&self.new).push(entry);
        }
    }

    /// Writes it, complete or not at all.
    ///
    /// # Errors
    /// If the file cannot be written, or something else than a cache is at its path by now.
    pub(super) fn save(mut self) -> Result<()> {
        let Some(file) = self.file else { return Ok(()) };
        let mut new = mutex::into_inner(self.new);
        new.sort_unstable_by_key(|entry| entry.key);
        new.dedup_by_key(|entry| entry.key);
        if new.iter().any(|entry| entry.facts.moved) {
            // Only the files that the last such run moved are witnesses.
            self.old.iter_mut().for_each(|entry| entry.facts.moved = false);
        }
        file.replace(&aged(self.old, &self.met), &new)
    }
}

/// The file of this user's cache: `$XDG_CACHE_HOME/pleach/dedupe`, or that below `~/.cache`.
pub(super) fn default_path() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("pleach/dedupe"))
}

fn key(catalogue: &Catalogue, file: FileId) -> Key {
    Key::of(&catalogue.volume(file).uuid, catalogue.subvolume(file).number, catalogue.record(file))
}

/// A key for a session of a filesystem.
fn session_key(volume: &Volume, session: u64) -> Key {
    let mut hasher = blake3::Hasher::new_derive_key("pleach: a session of a filesystem");
    Key::finish(hasher.update(&volume.uuid).update(&session.to_le_bytes()))
}

/// The files that the second stage may look at.
fn ranges_files<'a>(run: &'a Run<'_>, options: &ranges::Options) -> impl Iterator<Item = FileId> + use<'a> {
    let smallest = ranges::smallest(options);
    run.catalogue.ids().filter(move |file| run.catalogue.size(*file) >= smallest)
}

/// A key for all files that the second stage may read, in their present state, and for its options.
fn set_key(run: &Run<'_>, options: &ranges::Options) -> Key {
    let mut keys: Vec<_> = ranges_files(run, options).map(|file| key(run.catalogue, file)).collect();
    keys.sort_unstable();
    let mut hasher = blake3::Hasher::new_derive_key("pleach: files whose blocks were compared");
    hasher.update(&options.min_run.to_le_bytes());
    hasher.update(&options.index_memory.to_le_bytes());
    keys.iter().for_each(|key| {
        hasher.update(&key.0);
    });
    Key::finish(&hasher)
}

/// The old entries, one run older: entries that the run met become young again, and entries not met for long are
/// dropped.
fn aged(mut old: Vec<Entry>, met: &[AtomicBool]) -> Vec<Entry> {
    for (entry, met) in old.iter_mut().zip(met) {
        entry.age = if met.load(Ordering::Relaxed) { 0 } else { entry.age.saturating_add(1) };
    }
    old.retain(|entry| entry.age <= OLDEST);
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u8, layout: u64, age: u8) -> Entry {
        Entry { key: Key([number; 16]), facts: Facts { layout, ..Facts::default() }, age }
    }

    #[test]
    fn entries_age_unless_they_are_met_and_leave_when_no_run_met_them_for_long() {
        let met = [true, false, false, true].map(AtomicBool::new);
        let old = vec![entry(1, 1, 7), entry(2, 2, 7), entry(3, 3, OLDEST), entry(4, 4, OLDEST)];
        let ages: Vec<_> = aged(old, &met).iter().map(|entry| (entry.key.0[0], entry.age)).collect();
        assert_eq!(ages, [(1, 0), (2, 8), (4, 0)]);
    }
}
