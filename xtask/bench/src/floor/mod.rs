//! The floors: only the system calls that no tool for a job can avoid. Any time beyond a floor is pleach's own.
//!
//! Each floor is a hidden command of this program, so that it is timed like the contenders. No floor doubles as a
//! copier: if a bench needs a copy, a standard program makes it.

mod change;
pub(crate) mod dedupe;
mod statx;
mod stream;
mod tree;
mod writes;

use anyhow::Result;
use clap::Subcommand;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// A floor, as a command.
#[derive(Subcommand)]
pub(crate) enum Floor {
    /// Make a copy of a tree
    Tree(tree::Options),
    /// Copy large files past the page cache
    Stream {
        /// Only write as many bytes
        #[arg(long)]
        write_only: bool,
        /// A directory of files
        from: PathBuf,
        /// Its copy, which is made
        to: PathBuf,
    },
    /// Ask the status of everything in a tree
    Statx {
        /// The tree
        tree: PathBuf,
    },
    /// Share files that are known to be equal
    Dedupe {
        /// Which files, as the bench has written it down
        plan: PathBuf,
    },
    /// Write the changed blocks of a tree into clones of its last version
    Writes(writes::Options),
    /// Write known blocks into a version of an image
    Change(change::Options),
}

/// Runs the floor.
pub(crate) fn run(floor: &Floor) -> Result<()> {
    match floor {
        Floor::Tree(options) => tree::copy(options),
        Floor::Stream { write_only, from, to } => stream::copy(from, to, *write_only),
        Floor::Statx { tree } => statx::run(tree),
        Floor::Dedupe { plan } => dedupe::run(plan),
        Floor::Writes(options) => writes::make(options),
        Floor::Change(options) => change::make(options),
    }
}

/// This program with the arguments of a floor.
pub(crate) fn command<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_default());
    command.arg("floor").args(args.into_iter().map(Into::into));
    command
}
