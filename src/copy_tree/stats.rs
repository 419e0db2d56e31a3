//! The counts of a copy.

use crate::content::copy::{Engine, Reason};
use std::collections::BTreeMap;

/// What a run did, or a dry run would do. The names are those of the JSON summary.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Regular files. Each name of a hard link counts, and so do unchanged files.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, named pipes, sockets.
    pub others: u64,
    /// Apparent size of the files. Hard links count once.
    pub bytes: u64,
    /// Entries created or replaced by this run, including directories.
    pub copied_entries: u64,
    /// Files that existed already, with the same type, size and modification time.
    pub unchanged_files: u64,
    /// Bytes that share extents with their source.
    pub cloned_bytes: u64,
    /// Bytes of data written.
    pub copied_bytes: u64,
    /// Bytes of data read, to copy it and to verify it.
    pub read_bytes: u64,
    /// Bytes of cloned files that are stored with the metadata, where nothing is shared.
    pub inline_bytes: u64,
    /// Bytes in holes.
    pub hole_bytes: u64,
    /// Why data was copied and not cloned, in bytes for each reason.
    pub reasons: BTreeMap<Reason, u64>,
    /// How content was copied, in files for each engine.
    pub engines: BTreeMap<Engine, u64>,
    /// Metadata that the destination refused, in entries for each kind.
    pub not_kept: BTreeMap<&'static str, u64>,
    /// Files with both sides read back.
    pub verified_files: u64,
    /// Files with two different sides.
    pub damaged: u64,
    /// Entries skipped, or not completely like their source. Each was reported to the monitor.
    pub errors: u64,
    /// Whether a sync failed. Copied data may not be on the disk.
    pub sync_failed: bool,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Stats {
    /// Adds the counts of a part of the run.
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

    /// The number of entries that were copied or existed already.
    pub fn entries(&self) -> u64 {
        self.files + self.dirs + self.symlinks + self.others
    }
}
