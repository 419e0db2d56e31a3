//! Copies trees: `pleach copy`.
//!
//! - `plan` settles which source becomes what. Then `tree` walks the sources.
//! - `directory` finds or makes each directory in the destination on the way in; `leaving` gives it its metadata on the
//!   way out.
//! - `entries` takes the entries of a directory in batches: `look` compares each with what exists, `decide` decides.
//! - Small files with one name are copied in groups (`group`, `ring`), large ones side by side, everything else one by
//!   one (`alone`), inodes with several names once (`links`).
//! - `file` and `node` make an entry aside, under a temporary name, with content and metadata, and rename it into its
//!   place.
//! - `pending` does what waits for a sync (`job`). `verify` reads both sides back.
//!
//! A dry run takes the same steps and skips every call that changes something. Everything below a source and below the
//! destination is opened by descriptor, each from its parent, and no link is followed there. How entries are written is
//! `tree::writer`, which restoring shares.

mod alone;
mod context;
mod count;
mod decide;
mod directory;
mod entries;
mod file;
mod group;
mod job;
mod leaving;
mod links;
mod look;
mod metadata;
mod node;
mod not_kept;
mod options;
mod outcome;
mod pair;
mod pending;
mod place;
mod plan;
mod ring;
mod seal;
mod stats;
mod tree;
mod verify;

pub use options::{Into, Options};
pub use stats::Stats;

/// A copy that ended before it was done: why, and what it had copied by then.
pub type Stopped = crate::error::Stopped<Stats>;

use crate::content::copy::Engine;
use crate::error::Result;
use crate::fs::procfs;
use crate::monitor::Monitor;
use crate::tree::writer::Run as _;
use crate::util::semaphore::cores;
use context::Context;
use plan::Plan;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Copies `sources` to `destination`, as `cp -a` does.
///
/// # Errors
/// If the request contradicts itself, a source does not exist, the destination cannot be used, is full, or the run is
/// cancelled: [`Stopped`] has what was copied by then. A single entry that fails is reported to the monitor and
/// counted.
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
        links::seal_all(context);
        Ok(())
    };
    if options.dry_run {
        walk()?;
    } else {
        let walked = context.waiting.during(|| context.round(), walk);
        // What the summary counts must outlast a power cut; cp leaves that to its user. An interrupted run settles too.
        monitor.phase("syncing", None);
        context.settle()?;
        walked?;
    }
    context.not_kept.report(context.creator.is_root(), context.monitor);
    if options.verify && !options.dry_run {
        monitor.phase("verifying", None);
        for step in &plan.steps {
            verify::walk(context, step, threads)?;
        }
    }
    Ok(())
}

/// How many threads walk. Where content is read, small cold reads want requests under way, so the device's queue
/// decides and not the cores: one thread has 4 KiB files in 240 µs each, eight in 110, and more than sixteen gain
/// nothing. Where clones are made nothing but inodes is read, and more threads only wait for each other.
fn threads(plan: &Plan, options: &Options) -> usize {
    let clones = plan.may_clone && options.engine.is_none_or(|engine| engine == Engine::Clone);
    let best = if clones && !options.verify { (cores() * 2).clamp(4, 32) } else { (cores() * 4).clamp(8, 32) };
    options.threads.unwrap_or(best)
}
