//! The counts of a snapshot run.

use crate::content::copy::Reason;
use crate::snapshot::manifest::{FileBody, Stored, Totals};
use crate::snapshot::repository::Added;
use crate::tree::exclude;
use std::collections::BTreeMap;

/// The counts of a run. The names are those of the JSON summary.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Stats {
    /// The snapshot's name.
    pub name: String,
    /// Whether there was no earlier snapshot to compare with. Only a dry run finds it out.
    pub is_first: bool,
    /// Regular files. Each name of a hard link counts.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, named pipes, sockets.
    pub others: u64,
    /// Apparent size of the files. Hard links count once.
    pub bytes: u64,
    /// Files that the last snapshot did not have, except renamed ones.
    pub new_files: u64,
    /// Files that differ from the last snapshot's.
    pub changed_files: u64,
    /// The part of `changed_files` with other metadata only. Only a dry run counts it.
    pub metadata_files: u64,
    /// Files that have the same identity in the last snapshot.
    pub unchanged_files: u64,
    /// Files that the last snapshot had under another name.
    pub renamed_files: u64,
    /// Files of the last snapshot that are gone, except renamed ones.
    pub removed_files: u64,
    /// Files that were taken over from a killed run, which had read or written them.
    pub resumed_files: u64,
    /// Bytes of data that the killed run had written for them.
    pub resumed_bytes: u64,
    /// Bytes that share extents with the source or an earlier snapshot.
    pub cloned_bytes: u64,
    /// The part of `cloned_bytes` that lies in changed files.
    pub range_shared_bytes: u64,
    /// Bytes of data written.
    pub copied_bytes: u64,
    /// Bytes of file data read.
    pub read_bytes: u64,
    /// Bytes of files so small that the filesystem keeps them beside its metadata.
    pub inline_bytes: u64,
    /// Bytes in holes and never-written ranges.
    pub hole_bytes: u64,
    /// Entries that the user excluded.
    pub excluded: exclude::Counts,
    /// Entries that were skipped or kept with a defect, and steps that failed after the snapshot had appeared; each was
    /// reported to the monitor.
    pub errors: u64,
    /// Whether a power cut may undo the snapshot, because a sync failed. It is complete, but nothing should be deleted
    /// because it exists.
    pub is_volatile: bool,
    /// Why data was copied instead of cloned, with the bytes for each reason.
    pub reasons: BTreeMap<Reason, u64>,
    /// The space that the last blocks of copied files take beyond their data.
    pub rounding_bytes: u64,
    /// The space that the snapshot added on the disk; `None` in a dry run.
    pub added: Option<Added>,
    /// Bytes that were free for this user afterwards.
    pub free_bytes: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Stats {
    /// The percentage of the shareable data that is shared: 100 if there is no such data.
    pub fn sharing_percent(&self) -> f64 {
        let shareable = self.cloned_bytes.saturating_add(self.copied_bytes).saturating_add(self.resumed_bytes);
        if shareable == 0 { 100.0 } else { self.cloned_bytes as f64 * 100.0 / shareable as f64 }
    }

    /// The sums that the manifest keeps.
    pub(super) fn totals(&self) -> Totals {
        Totals {
            files: self.files,
            dirs: self.dirs,
            symlinks: self.symlinks,
            others: self.others,
            bytes: self.bytes,
            written_bytes: self.copied_bytes.saturating_add(self.resumed_bytes).saturating_add(self.inline_bytes),
            errors: self.errors,
        }
    }

    /// The sizes of a file that is a clone as a whole, as its record has them.
    pub(super) fn of_clone(file: &FileBody) -> Stats {
        let data = file.size.saturating_sub(file.holes);
        let inline_bytes = if file.stored == Stored::Inline { data } else { 0 };
        Stats {
            bytes: file.size,
            hole_bytes: file.holes,
            inline_bytes,
            cloned_bytes: data - inline_bytes,
            ..Stats::default()
        }
    }

    /// Adds the counts of a part of the run.
    pub(super) fn add(&mut self, part: &Stats) {
        // The sizes of sparse files can add up to more than 64 bits hold.
        let sums = [
            (&mut self.files, part.files),
            (&mut self.dirs, part.dirs),
            (&mut self.symlinks, part.symlinks),
            (&mut self.others, part.others),
            (&mut self.bytes, part.bytes),
            (&mut self.new_files, part.new_files),
            (&mut self.changed_files, part.changed_files),
            (&mut self.metadata_files, part.metadata_files),
            (&mut self.unchanged_files, part.unchanged_files),
            (&mut self.renamed_files, part.renamed_files),
            (&mut self.removed_files, part.removed_files),
            (&mut self.resumed_files, part.resumed_files),
            (&mut self.resumed_bytes, part.resumed_bytes),
            (&mut self.cloned_bytes, part.cloned_bytes),
            (&mut self.range_shared_bytes, part.range_shared_bytes),
            (&mut self.copied_bytes, part.copied_bytes),
            (&mut self.read_bytes, part.read_bytes),
            (&mut self.inline_bytes, part.inline_bytes),
            (&mut self.hole_bytes, part.hole_bytes),
            (&mut self.errors, part.errors),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        for (reason, bytes) in &part.reasons {
            let sum = self.reasons.entry(*reason).or_default();
            *sum = sum.saturating_add(*bytes);
        }
    }
}
