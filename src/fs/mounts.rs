//! Mounts: the table of this process's namespace (`table`), and the mounts inside a directory (`inside`).

mod inside;
mod table;

pub(crate) use inside::{Inside, Table, mount_id};
pub(crate) use table::{Mount, all, of};
