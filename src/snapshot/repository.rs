//! The repository on the disk: its directories, its lock, its snapshots. `manifest` reads the content of a snapshot.
//!
//! All access is relative to the repository's own descriptor and follows no symbolic link.

mod added;
mod block_hashes;
mod dir;
mod durable;
mod handle;
mod init;
mod layout;
mod leftovers;
mod lock;
mod name;
mod publish;
mod snapshots;
mod staging;
mod subvolume;
mod trash;

pub use added::{Added, Space};
pub use block_hashes::{BlockHashes, Draft};
pub(crate) use dir::Dir;
pub use handle::Repository;
pub use layout::{CONTROL, FORMAT, LATEST};
pub use leftovers::Leftover;
pub use lock::Lock;
pub use name::check_name;
pub use snapshots::{SnapshotInfo, SnapshotList};
pub use staging::Staging;
pub use subvolume::Start;

#[cfg(test)]
mod tests;
