//! Lists the snapshots in a store.

use super::store::{Access, Store};
use super::stored::{Snapshot, Stored, current};
use crate::error::Result;

/// The snapshots of pleach in a store, oldest first. Those of other programs are not among them.
///
/// # Errors
/// If the store cannot be read.
pub fn list(access: &Access) -> Result<Vec<Snapshot>> {
    let store = Store::open(access)?;
    Ok(current(&store)?.iter().filter_map(Stored::snapshot).collect())
}
