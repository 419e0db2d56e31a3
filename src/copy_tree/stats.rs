//! What a copy did, counted.

use crate::content::copy::{Engine, Reason};
use std::collections::BTreeMap;

/// What was done, or in a dry run would be. The names are those of the JSON summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Regular files, each name of a hard link counted, unchanged ones among them.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, named pipes, sockets.
    pub others: u64,
    /// Apparent size of the files, hard links once.
    pub bytes: u64,
    /// Entries made or replaced by this run, directories among them.
    pub copied_entries: u64,
    /// Files that were there already: same type, size and time of modification.
    pub unchanged_files: u64,
    /// Bytes that share extents with their source.
    pub cloned_bytes: u64,
    /// Bytes of data written.
    pub copied_bytes: u64,
    /// Bytes of data read to write them, and to verify.
    pub read_bytes: u64,
    /// Bytes of cloned files that lie beside the metadata: they share nothing.
    pub inline_bytes: u64,
    /// Bytes in holes.
    pub hole_bytes: u64,
    /// Why data was copied and not cloned, in bytes.
    pub reasons: BTreeMap<Reason, u64>,
    /// How content came over, in files.
    pub engines: BTreeMap<Engine, u64>,
    /// What the destination did not take of the metadata, in entries.
    pub not_kept: BTreeMap<&'static str, u64>,
    /// Files of which both sides were read back.
    pub verified_files: u64,
    /// Files whose sides differ.
    pub damaged: u64,
    /// Entries skipped or not quite like their source; each was reported to the monitor.
    pub errors: u64,
    /// A sync failed: what was copied may not be on the disk.
    pub sync_failed: bool,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Stats {
    /// Adds what a part of the run did.
    pub(super) fn add(&mut self, part: &Stats) {
        self.files += part.files;
        self.dirs += part.dirs;
        self.symlinks += part.symlinks;
        self.others += part.others;
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.copied_entries += part.copied_entries;
        self.unchanged_files += part.unchanged_files;
        self.cloned_bytes += part.cloned_bytes;
        self.copied_bytes += part.copied_bytes;
        self.read_bytes += part.read_bytes;
        self.inline_bytes += part.inline_bytes;
        self.hole_bytes = self.hole_bytes.saturating_add(part.hole_bytes);
        self.verified_files += part.verified_files;
        self.damaged += part.damaged;
        self.errors += part.errors;
        for (reason, bytes) in &part.reasons {
            *self.reasons.entry(*reason).or_default() += bytes;
        }
        for (engine, files) in &part.engines {
            *self.engines.entry(*engine).or_default() += files;
        }
        for (what, entries) in &part.not_kept {
            *self.not_kept.entry(what).or_default() += entries;
        }
    }

    /// All entries that were copied or were there already.
    pub fn entries(&self) -> u64 {
        self.files + self.dirs + self.symlinks + self.others
    }
}
