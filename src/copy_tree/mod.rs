//! Copies trees: `pleach copy`.
//!
//! - `plan` decides which source gets which name. Then `tree` walks the sources.
//! - `directory` finds or creates each directory in the destination when the walk enters it; `leaving` sets its
//!   metadata when the walk leaves it. `existing` enters those that exist, `staging` gives new ones a temporary name
//!   while their small files are copied, `publishing` their own.
//! - `entries` handles the entries of a directory in batches: `look` compares each with the existing entry, and
//!   `decide` decides.
//! - Small files with one name are copied in groups (`group`, `ring`), large ones side by side, everything else one by
//!   one (`alone`), inodes with several names once (`links`).
//! - `file` and `node` create an entry, unnamed or under a temporary name, with content and metadata, and move it to
//!   its place.
//! - `pending` does the jobs that wait for a sync (`job`). `verify` reads both sides again.
//!
//! A dry run takes the same steps and skips every call that changes something. Everything below a source and below the
//! destination is opened by descriptor, each from its parent, and no link is followed there. `tree::writer` writes the
//! entries, as for restoring.

mod alone;
mod context;
mod count;
mod decide;
mod directory;
mod entries;
mod existing;
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
mod publishing;
mod ring;
mod staging;
mod stats;
mod tree;
mod verify;

pub use crate::content::copy::{Engine, Reason};
pub use options::{Options, Placement};
pub use stats::Stats;

/// A copy that ended early: why, and what it had copied by then.
pub type Stopped = crate::error::Stopped<Stats>;

use crate::error::Result;
use crate::fs::procfs;
use crate::monitor::Monitor;
use crate::tree::writer::Run as _;
use crate::util::semaphore::cores;
use context::Context;
use plan::Plan;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Copies `sources` to `destination`, as `cp -a` does. Clones files if possible.
///
/// ```
/// use pleach::copy_tree::{Options, copy};
/// let dir = tempfile::tempdir()?;
/// let (source, other) = (dir.path().join("source"), dir.path().join("other"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
///
/// let stats = copy(&[source], &other, &Options::default(), &pleach::monitor::Silent)?;
/// assert_eq!((stats.files, stats.errors), (1, 0));
/// assert_eq!(std::fs::read_to_string(other.join("letter"))?, "Dear Ann");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the request contradicts itself, a source does not exist, the destination cannot be used or is full, or the run is
/// cancelled. [`Stopped`] has the counts so far. A single entry that fails is reported to the monitor and counted.
pub fn copy(
    sources: &[PathBuf],
    destination: &Path,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats, Stopped> {
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

/// Copies all steps of the plan, and verifies the copies if requested.
fn run(context: &Context<'_>, threads: usize) -> Result<()> {
    let (plan, options, monitor) = (context.plan, context.options, context.monitor);
    let walk = || {
        for (number, step) in plan.steps.iter().enumerate() {
            if number > 0 && !options.dry_run {
                // A step must find everything that the previous step has created.
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
        // Everything that the summary counts must survive a power cut; cp leaves that to its user. An interrupted run
        // settles too.
        monitor.phase("syncing", None);
        context.settle()?;
        walked?;
    }
    context.not_kept.report(context.creator.is_root(), context.monitor);
    if options.verify && !options.dry_run {
        monitor.phase("verifying", None);
        verify::walk(context, threads)?;
    }
    Ok(())
}

/// The number of threads that walk. If content is read, small cold reads need many pending requests, so the device's
/// queue decides and not the cores: one thread needs 240 µs for each 4 KiB file, eight threads need 110 µs, and more
/// than sixteen gain nothing. If files are cloned, only inodes are read, and more threads only wait for each other.
fn threads(plan: &Plan, options: &Options) -> usize {
    let clones = plan.may_clone && options.engine.is_none_or(|engine| engine == Engine::Clone);
    let best = if clones && !options.verify { (cores() * 2).clamp(4, 32) } else { (cores() * 4).clamp(8, 32) };
    options.threads.unwrap_or(best)
}
