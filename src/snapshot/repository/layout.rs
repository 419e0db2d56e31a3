//! The layout of a repository: its version, and the names of its parts that several files use. `docs/format.md`
//! describes the whole layout.

/// The version of the repository's layout that this program makes, and the only one that it works with.
pub(super) const FORMAT: u32 = 1;
/// The directory for everything that is not a snapshot.
pub(crate) const CONTROL: &str = ".pleach";
/// The word of `diff` for the sources as they are now. No new snapshot has this name.
pub(crate) const LIVE: &str = "live";
/// The link to the newest snapshot.
pub(super) const LATEST: &str = "latest";
/// The directory of snapshots that are received.
pub(super) const INCOMING: &str = "incoming";
/// The directory of the lists of block hashes, in the control directory and in a staging directory.
pub(super) const BLOCKS: &str = "blocks";
/// The list of finished files of a snapshot in the making.
pub(super) const FINISHED: &str = "finished";
/// The records of a snapshot that is received, as far as they arrived.
pub(crate) const JOURNAL: &str = "journal";
/// How far the tree of a snapshot that is received is complete, and the file that replaces this one.
pub(crate) const POSITION: &str = "position";
pub(crate) const POSITION_NEW: &str = "position.new";
