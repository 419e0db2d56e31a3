//! Internals for the tests and benchmarks of this repository (feature `testing`). No promise: they change with every
//! commit.

pub use crate::content::{copy, delta, hash};
pub use crate::extents::address_space;
pub use crate::fs::{fidedupe, filesystem, metadata, sparse, status, timestamp};
pub use crate::sys::reflink;

/// The manifests of snapshots.
pub mod manifest {
    pub use crate::snapshot::manifest::{
        Address, Body, Directory, Entry, FileBody, Header, Item, Meta, Origin, Reader, Stored, Time, Totals, VERSION,
        Writer,
    };
}
