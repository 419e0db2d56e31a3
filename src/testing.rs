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

/// The command line, parsed without running anything.
#[cfg(feature = "cli")]
pub mod command_line {
    pub use crate::program::command_line::{Mistake, help_texts, options, parse};
}

/// The fuzz targets: each reads any bytes, and panics if an invariant does not hold. `tests/fuzz` has their inputs.
#[cfg(feature = "cli")]
pub mod fuzz {
    use crate::{content, dedupe, extents, fs, program, snapshot, sys, tree, usage};

    /// The name of a target, and its function.
    pub type Target = (&'static str, fn(&[u8]));

    /// All targets.
    pub const TARGETS: &[Target] = &[
        ("addresses", snapshot::replicate::fuzz::addresses),
        ("blocks", dedupe::fuzz::blocks),
        ("cache", dedupe::fuzz::cache),
        ("excludes", tree::exclude::fuzz::excludes),
        ("extents", extents::fuzz::extents),
        ("finished", snapshot::create::fuzz::finished),
        ("hashes", content::delta::fuzz::hashes),
        ("journal", snapshot::receive::fuzz::journal),
        ("manifest", snapshot::manifest::fuzz::manifest),
        ("mounts", fs::mounts::fuzz::mounts),
        ("notes", snapshot::repository::fuzz::notes),
        ("profile", program::fuzz::profile),
        ("records", snapshot::manifest::fuzz::records),
        ("retention", snapshot::prune::fuzz::retention),
        ("sequence", snapshot::receive::fuzz::sequence),
        #[cfg(feature = "offsite")]
        ("sftp", snapshot::offsite::fuzz::sftp),
        ("stream", snapshot::stream::fuzz::stream),
        #[cfg(feature = "offsite")]
        ("stores", snapshot::offsite::fuzz::stores),
        ("tree_block", usage::fuzz::tree_block),
        ("tree_search", sys::btrfs::fuzz::tree_search),
        ("usage_map", usage::kept::fuzz::usage_map),
        ("values", program::fuzz::values),
        ("xattrs", fs::metadata::fuzz::xattrs),
    ];

    /// Gives a target its input.
    ///
    /// # Panics
    /// If an invariant does not hold, or there is no such target.
    pub fn run(target: &str, input: &[u8]) {
        let found = TARGETS.iter().find(|(name, _)| *name == target);
        found.expect("a target with this name").1(input);
    }
}
