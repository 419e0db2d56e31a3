//! Copies trees: `pleach copy`.
//!
//! Which source becomes what is settled first (`plan`). Then the sources are walked: each directory is found or made in the
//! destination (`directory`), the entries of each batch are compared with what is there (`decide`) and made aside, under a
//! temporary name, with content and metadata, and renamed into their place: regular files in groups (`file`), everything
//! else one by one (`node`), inodes with several names once (`links`). A dry run goes the same way and stops short of every
//! call that changes something. At the end the destination's filesystems are synced, and with `verify` both sides are read
//! back (`verify`).
//!
//! Everything below a source and below the destination is opened by descriptor, each from its parent, and no link is
//! followed there.

mod context;
mod decide;
mod directory;
mod entries;
mod file;
mod links;
mod node;
mod not_kept;
mod outcome;
mod plan;
mod ring;
mod stats;
mod tree;
mod verify;

pub use stats::Stats;

use crate::copy::Engine;
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::turns::cores;
use context::Context;
use plan::Plan;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What the destination is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Into {
    /// A directory that is there gets the sources; anything else is what the one source becomes.
    #[default]
    AsItStands,
    /// A directory that gets the sources (`--target-directory`).
    Directory,
    /// What the one source becomes, even where a directory is there: that is merged with (`--no-target-directory`).
    Name,
}

/// How to copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How content comes over; by default chosen for each file.
    pub engine: Option<Engine>,
    /// What the destination is.
    pub into: Into,
    /// Read both sides back at the end, and compare their hashes.
    pub verify: bool,
    /// Do not enter other filesystems; their mount points are made, empty.
    pub one_file_system: bool,
    /// Only tell the monitor what would be done.
    pub dry_run: bool,
    /// How many threads; by default what suits the device.
    pub threads: Option<usize>,
}

/// The beginning of temporary names.
const TEMPORARY: &str = ".pleach-copy.";

/// Copies `sources` to `destination`, as `cp -a` does.
///
/// # Errors
/// If the request contradicts itself, a source is not there, the destination cannot be used, is full, or the run is
/// cancelled. A single entry that fails is told to the monitor and counted.
pub fn copy(sources: &[PathBuf], destination: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let plan = Plan::new(sources, destination, options.into)?;
    let threads = threads(&plan, options);
    monitor.phase(if options.dry_run { "comparing" } else { "copying" }, None);
    let context = Context::new(&plan, options, monitor);
    let walk = || {
        plan.steps.iter().try_for_each(|step| tree::walk(&context, step, threads))?;
        context.links.seal_all(&context);
        Ok(())
    };
    if options.dry_run {
        walk()?;
    } else {
        // What is told as done is to outlast a power cut; cp leaves that to its user.
        let sync = || context.devices.sync(&plan.shown);
        context.ahead.during(sync, walk)?;
        monitor.phase("syncing", None);
        sync()?;
    }
    context.not_kept.tell(&context);
    if options.verify && !options.dry_run {
        monitor.phase("verifying", None);
        for step in &plan.steps {
            verify::walk(&context, step, threads)?;
        }
    }
    let mut stats = context.into_stats();
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// How many threads walk. Where content is read, small cold reads want requests under way, so the device's queue decides
/// and not the cores: one thread has 4 KiB files in 240 µs each, eight in 110, and more than sixteen gain nothing. Where
/// clones are made nothing but inodes is read, and more threads only wait for each other.
fn threads(plan: &Plan, options: &Options) -> usize {
    let clones = plan.may_clone && options.engine.is_none_or(|engine| engine == Engine::Clone);
    let best = if clones && !options.verify { (cores() * 2).clamp(4, 32) } else { (cores() * 4).clamp(8, 32) };
    options.threads.unwrap_or(best)
}

/// The end of a run that was asked to stop.
fn interrupted() -> Error {
    Error::new(crate::error::ErrorKind::Interrupted, "interrupted")
        .hint("every file that has its name is whole; run again to go on")
}
