//! What restoring and copying have in common: an entry is made aside, without a name or under a temporary one in its directory,
//! and then gets its own, so that a reader sees the old or the new, and a killed run leaves no half of a file under its name.
//! Snapshots, whose tree is aside as a whole, share with them that what was made is written out meanwhile.

mod ahead;
mod alias;
mod aside;
mod ground;
mod liveness;
mod node;
mod same;
mod temporary;
mod temporary_name;
mod unsynced;
mod version;
mod writeback;

pub(crate) use ahead::Ahead;
pub(crate) use alias::{Aliases, Owner, Wanted, is_another, is_found_in_other_case};
pub(crate) use aside::Aside;
pub(crate) use ground::{Device, Devices, Ground, Synced, is_sealed};
pub(crate) use liveness::clear;
pub(crate) use node::{Node, pin};
pub(crate) use same::{has_same_content, has_same_extents};
pub(crate) use temporary::{Replacing, Temporary, is_temporary};
pub(crate) use unsynced::{Unsynced, set_provisional_time};
pub(crate) use version::{Version, changed_meanwhile};
pub(crate) use writeback::{Room, Writeback};
