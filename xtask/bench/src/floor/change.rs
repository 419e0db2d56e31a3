//! The floor of a snapshot of an image with few changed blocks, if these are known: a version that shares all blocks
//! with the last one, the changed blocks written into it in place, and a sync. Nothing is read or compared.
//!
//! On Btrfs the version is in a subvolume snapshot of the last tree, on XFS it is a clone.

use crate::nights::subject::Subject;
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::PathBuf;
use xtask::command::{output, program};
use xtask::space;

/// What to change.
#[derive(Args)]
pub(crate) struct Options {
    /// Begin with a subvolume snapshot
    #[arg(long)]
    subvolume: bool,
    /// The size of the image
    #[arg(long)]
    bytes: u64,
    /// One block in this many changes
    #[arg(long)]
    changing: u64,
    /// Which blocks
    #[arg(long)]
    round: u32,
    /// The last snapshot, which stays as it is
    last: PathBuf,
    /// The directory of the image in it
    within: PathBuf,
    /// The new snapshot, which is made
    to: PathBuf,
}

/// Makes the new snapshot.
pub(super) fn make(options: &Options) -> Result<()> {
    let Options { subvolume, bytes, changing, round, last, within, to } = options;
    let dir = to.join(within);
    if *subvolume {
        output(program("btrfs").args(["subvolume", "snapshot"]).arg(last).arg(to))?;
    } else {
        fs::create_dir_all(&dir)?;
        let source = File::open(last.join(within).join("image")).context("cannot open the last image")?;
        rustix::fs::ioctl_ficlone(File::create_new(dir.join("image"))?, source.as_fd())?;
    }
    Subject::Image { bytes: *bytes, changing: *changing }.change(&dir, *round)?;
    space::sync(to)
}
