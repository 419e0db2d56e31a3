//! Behaviour of the command on real filesystems: one binary, a file per topic, the common parts in `harness`.
//!
//! `cargo xtask test` makes the filesystems; under a plain `cargo test` these tests are skipped.

#![cfg_attr(not(feature = "offsite"), allow(dead_code, reason = "some parts only serve the tests of `offsite`"))]
#![allow(clippy::disallowed_methods, reason = "they may panic here")]

mod adopt;
mod bad_days;
mod bad_manifests;
mod bad_sources;
mod cat;
mod changed;
mod cli;
mod completions;
mod copy;
mod corpus;
mod damage;
mod dedupe;
mod dedupe_accounting;
mod dedupe_cache;
mod dedupe_large_class;
mod dedupe_near_equal;
mod dedupe_safety;
mod dedupe_scope;
mod diff;
// They describe the program with all features.
#[cfg(feature = "offsite")]
mod documents;
mod du;
mod elsewhere;
mod engines;
mod errors;
mod exclude;
mod fiemap;
mod fiemap_pictures;
mod fiemap_sharing;
mod find;
mod foreign;
mod format;
mod formats;
mod freeze;
mod hard_links;
mod harness;
mod hostile;
mod interruption;
mod kernel_cases;
mod kills;
mod limits;
mod list;
mod log;
mod lost_writes;
mod man;
mod meanwhile;
mod metadata;
mod narrow;
#[cfg(feature = "offsite")]
mod offsite;
mod options;
mod owners;
mod power_cut;
mod probe;
mod prune;
mod put;
mod ranges;
mod refusal;
mod renames;
mod replaced;
mod replicate;
mod report;
mod restore;
mod resume;
mod run;
mod same_names;
mod sequences;
mod snapshot;
mod sources;
mod strays;
mod subvolume;
mod time_zone;
mod unnoticed_changes;
mod verify;
mod year;
