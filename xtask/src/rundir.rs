//! The directory of one run under `target/xtask`: its images and mount points. It is removed at the end of the run.
//!
//! A killed run leaves its directory behind; the next run sees that nobody holds its lock, and removes it.

use crate::command;
use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;

/// A directory that this process has locked, removed on drop.
pub struct RunDir {
    path: PathBuf,
    _lock: File,
}

impl RunDir {
    /// Creates the directory of a new run of `chore`, and removes those of killed runs.
    pub fn create(chore: &str) -> Result<RunDir> {
        let runs = command::target_dir().join("xtask/runs");
        fs::create_dir_all(&runs).with_context(|| format!("cannot make {}", runs.display()))?;
        remove_abandoned(&runs)?;
        let path = runs.join(format!("{chore}-{}", process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let lock = File::create(path.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(RunDir { path, _lock: lock })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("xtask: cannot remove {}: {error}", self.path.display());
        }
    }
}

fn remove_abandoned(runs: &Path) -> Result<()> {
    for entry in fs::read_dir(runs)? {
        let path = entry?.path();
        let abandoned = match File::open(path.join("lock")) {
            Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
            Err(_) => true,
        };
        if abandoned {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}
