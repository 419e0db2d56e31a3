//! Lists the snapshots in a store.

use super::held::Held;
use super::store::{Access, Store};
use super::stored::{Snapshot, Stored};
use crate::error::Result;
use crate::monitor::Monitor;

/// The result.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListStats {
    /// The snapshots of pleach, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// How many snapshots are damaged. They may be of pleach.
    pub errors: u64,
}

/// The snapshots of pleach in a store. Those of other programs are not among them.
///
/// # Errors
/// If the store cannot be read. A damaged snapshot is reported to the monitor and counted.
pub fn list(access: &Access, monitor: &dyn Monitor) -> Result<ListStats> {
    let store = Store::open(access, monitor)?;
    let held = Held::read(&store)?;
    let errors = held.report(&store, monitor);
    Ok(ListStats { snapshots: held.current().filter_map(Stored::snapshot).collect(), errors })
}
