//! The repository on the disk: its directories, its lock, its snapshots. `manifest` reads the content of a snapshot.
//!
//! All access is relative to the repository's own descriptor and follows no symbolic link.

mod added;
mod block_hashes;
mod clearing;
mod dir;
mod durable;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod handle;
mod incoming;
mod init;
mod layout;
mod leftovers;
mod lock;
mod maps;
mod marks;
mod name;
mod origin;
mod outside;
mod problems;
mod publish;
mod reading;
mod records;
mod removal;
mod reopened;
mod repair_list;
mod seen;
mod snapshots;
mod staging;
mod subvolume;
mod trash;
mod verification;
mod verified;

pub use added::Added;
pub(crate) use added::{Space, added, note_added, space};
pub(crate) use block_hashes::{BlockHashes, blocks, drop_blocks};
pub(crate) use clearing::{Clearing, Unreported};
pub(crate) use dir::Dir;
pub use handle::Repository;
pub(crate) use incoming::{incoming, incoming_position};
pub(crate) use layout::{CONTROL, JOURNAL, LIVE, POSITION, POSITION_NEW};
pub(crate) use leftovers::{Leftover, clear_leftovers, discard, leftovers, try_clearing};
pub(crate) use lock::Lock;
pub(crate) use maps::{MapDraft, map};
pub(crate) use marks::{Marks, check_tag, marks, set_marks, sync_marks};
pub(crate) use name::is_snapshot_name;
pub(crate) use origin::{identity, note_identity};
pub(crate) use outside::check_outside;
pub use problems::Problems;
pub(crate) use problems::{note_problems, problems};
pub(crate) use publish::{Latest, Published, check_latest, publish, try_publishing};
pub(crate) use removal::{Removed, correct_latest, is_in_use, latest_that_goes, parts, remove};
pub(crate) use reopened::{Reopened, TEMPORARY, complete_repairs};
pub(crate) use seen::{Part, Seen, SeenInodes, SeenSubvolume, Top, note_seen, seen};
pub(crate) use snapshots::SnapshotInfo;
pub(crate) use staging::{Staging, begin, begin_incoming, free_name};
pub(crate) use subvolume::{Start, can_make_subvolumes, frozen_dir, is_as_published, is_subvolume, remove_frozen_dir};
pub(crate) use trash::{empty_trash, trash_in_paths};
pub use verification::Verification;
pub(crate) use verification::{note_verification, verification};
pub(crate) use verified::{note_verified, verified};

#[cfg(test)]
mod tests;
