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
mod pending;
mod plan;
mod ring;
mod stats;
mod tree;
mod verify;

pub use stats::Stats;

/// A copy that ended before it was done: why, and what it had copied by then.
pub type Stopped = crate::error::Stopped<Stats>;

use crate::content::copy::Engine;
use crate::error::Result;
use crate::fs::procfs;
use crate::monitor::Monitor;
use crate::util::semaphore::cores;
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
    /// The name of the one source's copy, even if it is an existing directory: then the two are merged
    /// (`--no-target-directory`).
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
    /// Only report to the monitor what would be done.
    pub dry_run: bool,
    /// How many threads; by default what suits the device.
    pub threads: Option<usize>,
}

/// The beginning of temporary names.
const TEMPORARY: &str = ".pleach-copy.";

/// Copies `sources` to `destination`, as `cp -a` does.
///
/// # Errors
/// If the request contradicts itself, a source does not exist, the destination cannot be used, is full, or the run is
/// cancelled: [`Stopped`] has what was copied by then. A single entry that fails is reported to the monitor and counted.
pub fn copy(
    sources: &[PathBuf],
    destination: &Path,
    options: &Options,
    monitor: &dyn Monitor,
) -> std::result::Result<Stats, Stopped> {
    let begun = Instant::now();
    procfs::require()?;
    let plan = Plan::new(sources, destination, options.into)?;
    let threads = threads(&plan, options);
    monitor.phase(if options.dry_run { "comparing" } else { "copying" }, None);
    let context = Context::new(&plan, options, threads, monitor);
    let result = run(&context, threads);
    let sync_failed = context.devices.check(&plan.shown).is_err();
    let mut stats = context.into_stats();
    stats.sync_failed = sync_failed;
    stats.seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(stats),
        Err(error) => Err(Stopped::after(error, stats)),
    }
}

/// Copies all steps of the plan, and verifies the copies if that is asked for.
fn run(context: &Context<'_>, threads: usize) -> Result<()> {
    let (plan, options, monitor) = (context.plan, context.options, context.monitor);
    let walk = || {
        for (number, step) in plan.steps.iter().enumerate() {
            if number > 0 && !options.dry_run {
                // What a step finds must be what the one before it has made.
                context.settle()?;
            }
            tree::walk(context, step, threads)?;
        }
        context.links.seal_all(context);
        Ok(())
    };
    if options.dry_run {
        walk()?;
    } else {
        let walked = context.writeback.during(|| context.round(), walk);
        // What the summary counts must outlast a power cut; cp leaves that to its user. An interrupted run settles too.
        monitor.phase("syncing", None);
        context.settle()?;
        walked?;
    }
    context.not_kept.report(context);
    if options.verify && !options.dry_run {
        monitor.phase("verifying", None);
        for step in &plan.steps {
            verify::walk(context, step, threads)?;
        }
    }
    Ok(())
}

/// How many threads walk. Where content is read, small cold reads want requests under way, so the device's queue decides
/// and not the cores: one thread has 4 KiB files in 240 µs each, eight in 110, and more than sixteen gain nothing. Where
/// clones are made nothing but inodes is read, and more threads only wait for each other.
fn threads(plan: &Plan, options: &Options) -> usize {
    let clones = plan.may_clone && options.engine.is_none_or(|engine| engine == Engine::Clone);
    let best = if clones && !options.verify { (cores() * 2).clamp(4, 32) } else { (cores() * 4).clamp(8, 32) };
    options.threads.unwrap_or(best)
}
