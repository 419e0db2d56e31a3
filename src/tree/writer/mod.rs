//! What restoring and copying have in common: an entry is made aside, without a name or under a temporary one in its directory,
//! and then gets its own, so that a reader sees the old or the new, and a killed run leaves no half of a file under its name.
//! Snapshots, whose tree is aside as a whole, share with them that what was made is written out meanwhile.

mod after_sync;
mod alias;
mod inherited;
mod liveness;
mod node;
mod same;
mod temp_file;
mod temporary;
mod temporary_name;
mod unsynced;
mod version;

pub(crate) use after_sync::{AfterSync, Room};
pub(crate) use alias::{Aliases, Owner, Wanted, is_another, is_found_in_other_case};
pub(crate) use inherited::{Device, Devices, Inherited, Synced, is_sealed};
pub(crate) use liveness::clear;
pub(crate) use node::{Node, pin};
pub(crate) use same::{has_same_content, has_same_extents};
pub(crate) use temp_file::TempFile;
pub(crate) use temporary::{Replacing, Temporary, is_temporary};
pub(crate) use unsynced::{Unsynced, set_provisional_time};
pub(crate) use version::{Version, changed_meanwhile};
