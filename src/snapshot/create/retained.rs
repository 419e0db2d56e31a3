//! Sums over the records of the last manifest that a run took over unseen: all of them without those that it met.

use super::large_file::LEAST;
use super::stats::Stats;
use crate::snapshot::manifest::{Body, Entry, Item, Stored, Totals};
use std::collections::HashSet;

/// Sums over records, as the counts of a run have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) totals: Totals,
    pub(super) hole_bytes: u64,
    pub(super) inline_bytes: u64,
}

/// The records of the last manifest that a run did not meet.
#[derive(Debug)]
pub(super) struct Retained {
    /// At first all records.
    rest: Sums,
    /// Inodes with several names that were met.
    inodes: HashSet<(u64, u64)>,
    /// The hashes of large files that were met.
    hashes: HashSet<[u8; 32]>,
}

impl Retained {
    /// All records of a manifest with these sums.
    pub(super) fn of(all: Sums) -> Retained {
        Retained { rest: all, inodes: HashSet::new(), hashes: HashSet::new() }
    }

    /// The run met this record: it is gone, or there is a new one in its place.
    pub(super) fn met(&mut self, item: &Item) {
        let totals = &mut self.rest.totals;
        let entry = match item {
            Item::Directory(directory) => {
                return subtract(&mut totals.dirs, u64::from(!directory.scaffold));
            }
            Item::Entry(entry) => entry,
        };
        let Some(file) = entry.file() else {
            let is_link = matches!(entry.body, Body::Symlink(_));
            return subtract(if is_link { &mut totals.symlinks } else { &mut totals.others }, 1);
        };
        subtract(&mut totals.files, 1);
        self.hashes.extend(file.hash.filter(|_| file.size >= LEAST));
        if self.is_first(entry) {
            let totals = &mut self.rest.totals;
            subtract(&mut totals.bytes, file.size);
            subtract(&mut self.rest.hole_bytes, file.holes);
            if file.stored == Stored::Inline {
                subtract(&mut self.rest.inline_bytes, file.size.saturating_sub(file.holes));
            }
        }
    }

    /// Whether the run met a large file with this hash.
    pub(super) fn has_met(&self, hash: &[u8; 32]) -> bool {
        self.hashes.contains(hash)
    }

    /// Adds the records that were not met to the counts of the run.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        let Sums { totals, hole_bytes, inline_bytes } = self.rest;
        let data = totals.bytes.saturating_sub(hole_bytes).saturating_sub(inline_bytes);
        stats.add(&Stats {
            files: totals.files,
            dirs: totals.dirs,
            symlinks: totals.symlinks,
            others: totals.others,
            bytes: totals.bytes,
            unchanged_files: totals.files,
            cloned_bytes: data,
            inline_bytes,
            hole_bytes,
            ..Stats::default()
        });
    }

    /// The entries that were not met.
    pub(super) fn entries(&self) -> u64 {
        self.rest.totals.entries()
    }

    /// Whether this is the first name of the inode that was met.
    fn is_first(&mut self, entry: &Entry) -> bool {
        entry.meta.nlink <= 1 || self.inodes.insert((entry.meta.dev, entry.meta.ino))
    }
}

fn subtract(sum: &mut u64, less: u64) {
    *sum = sum.saturating_sub(less);
}
