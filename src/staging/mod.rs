//! What restoring and copying have in common: an entry is made aside, under a temporary name in its directory, and then
//! moved to its own, so that a reader sees the old or the new, and a killed run leaves no half of a file under its name.

mod ground;
mod node;
mod same;
mod temporary;

pub(crate) use ground::{Device, Devices, Ground, is_sealed};
pub(crate) use node::{Node, pin};
pub(crate) use same::{has_same_content, has_same_extents};
pub(crate) use temporary::{Temporary, clear, is_temporary, put, temporary_name, under_temporary_name};
