//! The counts of a restore.

/// The work that was done, or in a dry run would be. The names are those of the JSON summary.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshot's name. Empty if none was found.
    pub snapshot: String,
    /// Regular files, unchanged ones included. Each name of a hard link counts.
    pub files: u64,
    /// Directories, except those on the way.
    pub dirs: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, named pipes, sockets.
    pub others: u64,
    /// Apparent size of the files. Hard links count once.
    pub bytes: u64,
    /// Bytes that share extents with the snapshot.
    pub cloned_bytes: u64,
    /// Bytes of data written.
    pub copied_bytes: u64,
    /// Existing files that were kept, perhaps with new metadata.
    pub unchanged_files: u64,
    /// Entries and directories made where nothing was.
    pub new_entries: u64,
    /// Entries replaced because their content or type differed.
    pub replaced_entries: u64,
    /// Entries with only their metadata changed, except directories.
    pub metadata_entries: u64,
    /// Entries removed because the snapshot does not have them. A directory with everything in it counts once.
    pub deleted: u64,
    /// Existing files that were read to compare them.
    pub compared_files: u64,
    /// New or replaced files that were checked against the manifest's hash of their content.
    pub verified_files: u64,
    /// Bytes read to compare and to verify.
    pub read_bytes: u64,
    /// Files of the snapshot that do not have the content that their manifest records. None of them was put in place.
    pub damaged: u64,
    /// Entries skipped or not quite as in the snapshot; each was reported to the monitor. Damaged entries are included.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Stats {
    /// Adds an entry's share. `Done` counts the changes.
    pub(super) fn add(&mut self, other: &Stats) {
        self.files += other.files;
        self.dirs += other.dirs;
        self.symlinks += other.symlinks;
        self.others += other.others;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.cloned_bytes += other.cloned_bytes;
        self.copied_bytes += other.copied_bytes;
        self.unchanged_files += other.unchanged_files;
        self.compared_files += other.compared_files;
        self.verified_files += other.verified_files;
        self.read_bytes += other.read_bytes;
        self.damaged += other.damaged;
        self.errors += other.errors;
    }
}

/// A restore that ended early: the reason, and the changes so far.
pub type Stopped = crate::error::Stopped<Stats>;
