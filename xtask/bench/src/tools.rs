//! The paths of the measured programs.

use std::path::PathBuf;
use std::process::Command;
use xtask::command::{find, program, target_dir};
use xtask::packages::Crate;

/// The release build of pleach.
pub(crate) fn pleach() -> PathBuf {
    target_dir().join("release/pleach")
}

/// This program, which contains the floors.
pub(crate) fn own() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// A program from crates.io, or from the system.
pub(crate) fn installed(program: &Crate) -> Option<PathBuf> {
    Some(program.path()).filter(|path| path.is_file()).or_else(|| find(program.name))
}

/// A command with English output, and without a repository in its environment.
pub(crate) fn plain(tool: Option<PathBuf>) -> Command {
    let mut command = program(tool.unwrap_or_default());
    command.env_remove("PLEACH_REPO").env("LC_ALL", "C");
    command
}
