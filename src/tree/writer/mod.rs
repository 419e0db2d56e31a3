//! The one way to write entries into a tree, for `restore` and `copy`.
//!
//! An entry is made first, unnamed or under a temporary name in its directory, and then gets its own name. So a reader
//! sees the old or the new entry, and a killed run leaves no partial file under its name. The run decides which entries
//! it wants, where it reads them from, and how it counts.
//!
//! - `slot`: the place of one entry, and the steps by which it is written. Begin to read there.
//! - `target`, `run`: what a run must provide. `failure`, `retry`: what a failed call means, and when to try again.
//! - `decide`: what to do with an entry, given the wanted and the existing entry. `rights`: which existing inodes may
//!   be changed; `existing` opens them.
//! - `target_dir`, `inherited`, `alias`: a directory of the target. `device`: its filesystem.
//! - `new_file`, `node`, `subdir`, `staged_dir`, `links`: create entries. `set_metadata`: sets that of existing ones.
//! - `temporary`, `temporary_name`, `temp_file`: the names and files that an entry has before its own name.
//! - `version`, `same`: which entries may be replaced.
//! - `after_sync`, `unsynced`: the jobs and files that wait until data is on the disk.
//! - `liveness`: which temporary names belong to living runs.

mod after_sync;
mod alias;
mod decide;
mod device;
mod existing;
mod failure;
mod inherited;
mod links;
mod liveness;
mod new_file;
mod node;
mod retry;
mod rights;
mod run;
mod same;
mod set_metadata;
mod slot;
mod staged_dir;
mod subdir;
mod target;
mod target_dir;
mod temp_file;
mod temporary;
mod temporary_name;
mod unsynced;
mod version;

pub(crate) use after_sync::{AfterSync, Room};
pub(crate) use alias::{Aliases, Owner, Wanted, is_another, is_found_in_other_case};
pub(crate) use decide::{Compare, Decision, Metadata, WantedEntry, decide};
pub(crate) use device::{Device, Devices, Synced};
pub(crate) use existing::keeps_owners;
pub(crate) use failure::{Attempt, Failure};
pub(crate) use inherited::Inherited;
pub(crate) use links::{First, Linked, Links, Seal, Waiting};
pub(crate) use liveness::{clear, clear_with_directories, is_unfinished};
pub(crate) use new_file::{Finished, Put};
pub(crate) use node::Node;
pub(crate) use retry::retry;
pub(crate) use rights::{Entering, Rights};
pub(crate) use run::Run;
pub(crate) use same::{has_same_content, has_same_extents};
pub(crate) use set_metadata::{Inode, give_and_seal};
pub(crate) use slot::{Parent, Slot};
pub(crate) use staged_dir::StagedDir;
pub(crate) use subdir::{Missing, Subdir};
pub(crate) use target::{Target, Wording};
pub(crate) use target_dir::{Openness, TargetDir};
pub(crate) use temp_file::TempFile;
pub(crate) use temporary::{Replacing, Temporary, is_temporary};
pub(crate) use unsynced::Unsynced;
use unsynced::set_provisional_time;
pub(crate) use version::{Version, changed_meanwhile};
