//! The one way to write entries into a tree, for `restore` and `copy`.
//!
//! An entry is made aside, without a name or under a temporary name in its directory, and then gets its own name: a
//! reader sees the old or the new entry, and a killed run leaves no half of a file under its name. What a run wants,
//! where it reads that from, and how it counts belongs to the run.
//!
//! - `target`, `run`: what a run must show of itself. `failure`, `again`: what a failed call means, and when to try
//!   again.
//! - `decide`: what happens to an entry, given what is wanted and what exists.
//! - `target_dir`, `inherited`, `alias`: a directory of the target. `device`: its filesystem.
//! - `temporary`, `temporary_name`, `temp_file`, `node`, `links`: how entries are made. `give`: how they get metadata.
//! - `version`, `same`: what may be replaced.
//! - `after_sync`, `unsynced`: what waits until data is on the disk.
//! - `liveness`: which temporary names belong to living runs.

mod after_sync;
mod again;
mod alias;
mod decide;
mod device;
mod failure;
mod give;
mod inherited;
mod links;
mod liveness;
mod node;
mod run;
mod same;
mod target;
mod target_dir;
mod temp_file;
mod temporary;
mod temporary_name;
mod unsynced;
mod version;

pub(crate) use after_sync::{AfterSync, Room};
pub(crate) use again::again;
pub(crate) use alias::{Aliases, Owner, Wanted, is_another, is_found_in_other_case};
pub(crate) use decide::{Compare, Decision, Metadata, WantedEntry, decide};
pub(crate) use device::{Device, Devices, Synced};
pub(crate) use failure::{Attempt, Failure};
pub(crate) use give::{give, give_to_node};
pub(crate) use inherited::Inherited;
pub(crate) use links::{First, Linked, Links, Seal, Waiting};
pub(crate) use liveness::clear;
pub(crate) use node::{Node, pin};
pub(crate) use run::Run;
pub(crate) use same::{has_same_content, has_same_extents};
pub(crate) use target::{Target, Wording};
pub(crate) use target_dir::{EntryName, TargetDir};
pub(crate) use temp_file::TempFile;
pub(crate) use temporary::{Replacing, Temporary, is_temporary};
pub(crate) use unsynced::{Unsynced, set_provisional_time};
pub(crate) use version::{Version, changed_meanwhile};
