//! The release that the files are made for.

use crate::command::{self, output, program};
use crate::package;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// The files of a release, and what their names have in common.
pub(super) struct Release {
    pub(super) dir: PathBuf,
    pub(super) version: String,
    /// The time of the last commit: the same commit gives the same files.
    pub(super) epoch: String,
}

impl Release {
    /// Begins with an empty directory.
    pub(super) fn new() -> Result<Release> {
        let dir = command::target_dir().join("packages");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let version = package::version()?;
        let commit = output(program("git").current_dir(command::root()).args(["log", "-1", "--format=%ct"]));
        let epoch = commit.map_or_else(|_| "0".to_string(), |time| time.trim().to_string());
        Ok(Release { dir, version, epoch })
    }
}
