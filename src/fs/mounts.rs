//! Mounts: the table of this process's namespace (`table`), and the mounts inside a directory (`inside`).

#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod inside;
mod table;

pub(crate) use inside::{Inside, Table, mount_id};
pub(crate) use table::{Mount, all, of};
