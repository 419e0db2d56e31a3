//! The common parts of the project's chores: calling programs, filesystems in image files, namespaces, made content,
//! the command lines in the documents.
//!
//! The chores themselves are elsewhere: `main.rs` has the tests and the demo, the package `pleach-bench` the
//! benchmarks.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who runs it")]

pub mod command;
pub mod documents;
pub mod image;
pub mod markdown;
pub mod namespace;
pub mod noise;
pub mod packages;
pub mod rundir;
pub mod shell;
pub mod space;
pub mod toolchain;
pub mod vendor;
pub mod wheels;
