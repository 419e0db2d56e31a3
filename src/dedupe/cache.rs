//! The results of a run, kept for the next run: 64 bytes for each candidate, and the block indexes. None of it is in
//! memory. The file is in `cache_file`, the layout in `docs/dedupe.md`.
//!
//! An entry's key is a hash of filesystem, subvolume, inode, size, mtime and ctime, so a file that was written to has
//! another key. A file as young as the beginning of the run is not kept, since a later change could have the same
//! timestamp. A damaged cache, or one of another version, is built anew. A filesystem may be set back to an older
//! image; `witness` notices that.

use super::cache_file::{BlockIndex, CacheFile, Changes, Content, Stored};
use super::catalogue::{Catalogue, FileId, Volume};
use super::entry::{Change, Entry, Key};
use super::facts::{Facts, Member};
use super::kept_blocks::store::{Opener, Store};
use super::ranges;
use super::run::{Run, add};
use crate::error::Result;
use crate::extents::map::Map;
use crate::fs::spill::Spill;
use crate::fs::status::Time;
use crate::monitor::CacheFault;
use crate::util::mutex::{self, lock};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// The cache of one run.
pub(super) struct Cache {
    file: Option<CacheFile>,
    old: Option<Stored>,
    changes: Mutex<Changes>,
    /// When the run began.
    begun: Time,
}

impl Cache {
    /// No cache.
    pub(super) fn none() -> Cache {
        Cache { file: None, old: None, changes: Mutex::default(), begun: Time::default() }
    }

    /// Reads the cache at `path`. If the cache cannot be used, this run replaces it and the reason is returned too.
    ///
    /// # Errors
    /// If something else than a cache is at that path: it must not be replaced.
    pub(super) fn open(path: PathBuf) -> Result<(Cache, Option<CacheFault>)> {
        let begun = Time::now();
        let (file, content) = CacheFile::open(path)?;
        let (old, unusable) = match content {
            Content::Absent => (None, None),
            Content::Verified(old) => (Some(old), None),
            Content::Unusable(fault) => (None, Some(fault)),
        };
        Ok((Cache { file: Some(file), old, changes: Mutex::default(), begun }, unusable))
    }

    /// The path of its file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(CacheFile::path)
    }

    /// When the run began, as far as timestamps show it: younger files are not kept.
    pub(super) fn begun(&self) -> Time {
        self.begun
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
        self.old = None;
    }

    /// Whether a run has kept something in this session of the filesystem. If so, nobody can have set the filesystem
    /// back since.
    pub(super) fn knows_session(&self, volume: &Volume) -> bool {
        volume.session.is_some_and(|session| self.old(&session_key(volume, session)).is_some())
    }

    /// Records that a run kept something in the present sessions of these filesystems.
    pub(super) fn keep_sessions(&self, volumes: &[Volume]) {
        for volume in volumes {
            if let Some(session) = volume.session {
                self.keep_key(session_key(volume, session));
            }
        }
    }

    /// The facts that an earlier run kept about a file.
    pub(super) fn known(&self, catalogue: &Catalogue, file: FileId) -> Option<Facts> {
        self.old(&Key::of(catalogue, file)).map(|old| old.facts)
    }

    /// A candidate with all known facts about it.
    pub(super) fn member(&self, run: &Run<'_>, file: FileId) -> Member {
        let key = Key::of(run.catalogue, file);
        let facts = self.old(&key).map(|old| Facts { moved: false, ..old.facts });
        if facts.is_some() {
            add(&run.counters.cache_hits, 1);
        }
        Member { file, identity: key.identity(), facts: facts.unwrap_or_default(), out: false }
    }

    /// The block indexes that earlier runs kept. Their checksum was verified.
    pub(super) fn blocks(&self) -> Store {
        let Some(file) = self.file.clone() else { return Store::default() };
        let old = self.old.as_ref().map(|old| {
            let open = old.index();
            Box::new(move || Box::new(open()) as Box<dyn Read>) as Opener
        });
        Store::open(old, Some(Box::new(move || file.spill().map(File::from))))
    }

    /// The entry with this key in the old cache.
    fn old(&self, key: &Key) -> Option<Entry> {
        Some(self.old.as_ref()?.find(key)?.1)
    }

    fn add(&self, change: Change) {
        if let Some(file) = &self.file {
            lock(&self.changes).add(change, || file.spill());
        }
    }

    /// Makes an unnamed file for data that does not fit into memory.
    pub(super) fn spill(&self) -> io::Result<OwnedFd> {
        match &self.file {
            Some(file) => file.spill(),
            None => Ok(Spill::into(None).file()?),
        }
    }

    /// Keeps an entry without facts.
    fn keep_key(&self, key: Key) {
        self.add(Change::Set(Entry { key, facts: Facts::default(), age: 0 }));
    }

    /// Keeps the facts now known about a candidate.
    pub(super) fn keep(&self, run: &Run<'_>, member: &Member) {
        let is_settled = run.catalogue.record(member.file).ctime() < self.begun;
        let is_placed = !member.out && member.facts.layout != 0;
        if self.file.is_some() && is_settled && !member.facts.changing && (is_placed || member.facts.inline) {
            let entry = Entry { key: Key::of(run.catalogue, member.file), facts: member.facts.lasting(), age: 0 };
            run.set_kept(member.file);
            if let Some(stored) = &self.old
                && let Some((number, old)) = stored.find(&entry.key)
                && (Facts { moved: false, ..old.facts }) == entry.facts
            {
                return stored.set_met(number);
            }
            self.add(Change::Set(entry));
        }
    }

    /// Keeps the new places of files that got other extents for some ranges. The old entry would name blocks that may
    /// belong to another file by the next run.
    pub(super) fn keep_moved(&self, run: &Run<'_>) {
        if self.file.is_none() {
            return;
        }
        for file in run.moved() {
            let key = Key::of(run.catalogue, file);
            if !run.is_kept(file) && self.old(&key).is_none() {
                continue;
            }
            let opened = run.opener.open(file).ok();
            let mut place = Facts::default();
            // Without a map the place is not known, and the next run maps the file.
            if let Some(map) = opened.and_then(|opened| Map::of(&opened, run.space(file), false).ok()) {
                place.set_place(file, &map);
            }
            self.add(Change::Moved { key, layout: place.layout, first: place.first });
        }
    }

    /// Whether a run read the blocks of exactly these files, in their present state, with these options.
    pub(super) fn knows_ranges(&self, run: &Run<'_>, options: &ranges::Options) -> bool {
        let key = self.file.as_ref().map(|_| set_key(run, options));
        let known = key.is_some_and(|key| self.old(&key).is_some());
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
            self.keep_key(set_key(run, options));
        }
    }

    /// Writes it, complete or not at all.
    ///
    /// # Errors
    /// If the file cannot be written, or something else than a cache is at its path by now.
    pub(super) fn save(self, index: BlockIndex<'_>) -> Result<()> {
        let Some(file) = self.file else { return Ok(()) };
        file.replace(self.old.as_ref(), mutex::into_inner(self.changes), index)
    }
}

/// The file of this user's cache: `$XDG_CACHE_HOME/pleach/dedupe`, or that below `~/.cache`.
pub(super) fn default_path() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("pleach/dedupe"))
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
    let mut keys: Vec<_> = ranges_files(run, options).map(|file| Key::of(run.catalogue, file)).collect();
    keys.sort_unstable();
    let mut hasher = blake3::Hasher::new_derive_key("pleach: files whose blocks were compared");
    hasher.update(&options.min_run.to_le_bytes());
    hasher.update(&options.index_memory.to_le_bytes());
    keys.iter().for_each(|key| {
        hasher.update(&key.0);
    });
    Key::finish(&hasher)
}
