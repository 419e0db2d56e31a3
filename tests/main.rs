//! Behaviour of the command on real filesystems: one binary, a file per topic, the common parts in `harness`.
//!
//! `cargo xtask test` makes the filesystems; under a plain `cargo test` these tests are skipped.

mod bad_manifests;
mod bad_sources;
mod changed;
mod cli;
mod copy;
mod dedupe;
mod dedupe_cache;
mod dedupe_safety;
mod du;
mod elsewhere;
mod engines;
mod exclude;
mod fiemap;
mod fiemap_pictures;
mod fiemap_sharing;
mod format;
mod formats;
mod freeze;
mod hard_links;
mod harness;
mod hostile;
mod interruption;
mod list;
mod meanwhile;
mod metadata;
mod options;
mod owners;
mod probe;
mod put;
mod ranges;
mod refusal;
mod renames;
mod restore;
mod resume;
mod snapshot;
mod subvolume;
