//! The counts of a verification.

use super::context::Snapshot;

/// The work that was done, and what it found. The names are those of the JSON summary.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshots, oldest first; before them those with an unreadable manifest. Without snapshots that were deleted
    /// meanwhile.
    pub rows: Vec<Row>,
    /// Regular files, each name in each snapshot.
    pub files: u64,
    /// Files without a hash in the manifest: only their status could be compared.
    pub unhashed_files: u64,
    /// Files with their content compared with its hash.
    pub checked_files: u64,
    /// The size of these files: content that several files share counts for each of them.
    pub checked_bytes: u64,
    /// Bytes read from the device.
    pub read_bytes: u64,
    /// Damaged entries and manifests, each path in each snapshot. Each was reported to the monitor.
    pub damaged: u64,
    /// Damaged entries that were repaired, by [`repair_from`](super::Options::repair_from). Each was reported to the
    /// monitor.
    pub repaired: u64,
    /// Bytes that do not share extents although the manifests say so; measured on request.
    pub unshared_bytes: u64,
    /// Entries that could not be verified; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// A snapshot that was verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Regular files. Each name of a hard link counts.
    pub files: u64,
    /// The size of the files with their content compared with its hash.
    pub checked_bytes: u64,
    /// Damaged entries, and damaged parts of its manifest.
    pub damaged: u64,
    /// Bytes of it that do not share extents with an earlier snapshot although its manifest says so.
    pub unshared_bytes: u64,
}

/// A verification that ended early: the reason, and the counts until then.
pub type Stopped = crate::error::Stopped<Stats>;

impl Stats {
    /// Adds the counts of these snapshots.
    pub(super) fn add(&mut self, snapshots: &[Snapshot], read_bytes: u64, errors: u64) {
        for snapshot in snapshots {
            let counts = &snapshot.counts;
            self.files += counts.files.get();
            self.unhashed_files += counts.unhashed_files.get();
            self.checked_files += counts.checked_files.get();
            self.checked_bytes = self.checked_bytes.saturating_add(counts.checked_bytes.get());
            self.damaged += counts.damaged.get();
            self.unshared_bytes = self.unshared_bytes.saturating_add(counts.unshared_bytes.get());
            if !snapshot.is_deleted() {
                self.rows.push(Row {
                    name: snapshot.name.clone(),
                    files: counts.files.get(),
                    checked_bytes: counts.checked_bytes.get(),
                    damaged: counts.damaged.get(),
                    unshared_bytes: counts.unshared_bytes.get(),
                });
            }
        }
        self.read_bytes += read_bytes;
        self.errors += errors;
    }
}
