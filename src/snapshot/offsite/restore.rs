//! Restores a snapshot from a store, or parts of it. The library writes the files.
//!
//! The library stops at the first entry that it cannot write or read. So `prepare_target` keeps entries from it that
//! cannot be written, and removes files that the library must not write to, as `trust` says. The library does not
//! compare content with its hash either. So `repair_content` then goes through the files one by one.
//!
//! A file with its final size and time counts as restored in the next run. So the library writes the content of all
//! files first, then comes a sync, and only then it sets times and all other metadata, as `tree::writer::after_sync`
//! explains. `durable` has the filesystems of the target.

mod damage;
mod durable;
mod job;
mod obstacle;
mod prepare_target;
mod repair_content;
mod selection;
mod trust;

use super::held::Held;
use super::progress::watch;
use super::store::{Access, Store};
use super::stored::Stored;
use super::{guard, library_log};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use job::Job;
pub use job::RestoreOptions;
use prepare_target::Room;
use rustic_core::{LocalDestination, RestorePlan};
use selection::{Parts, Selection};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The result.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreStats {
    /// The name of the snapshot.
    pub snapshot: String,
    /// Files that were written or, in a dry run, would be.
    pub files: u64,
    /// Files that were there already.
    pub unchanged: u64,
    /// Directories that were made.
    pub dirs: u64,
    /// Bytes that were written.
    pub restored_bytes: u64,
    /// Entries that were not restored, or lack some of their metadata.
    pub errors: u64,
    /// Whether something in the store is damaged.
    pub is_damaged: bool,
    /// How long it took.
    pub seconds: f64,
}

/// Restores a snapshot, or parts of it. Existing files with the same size and time are kept, others are replaced.
///
/// New files have mode 0600 until all content is written, and only then get their metadata. An existing file is kept or
/// overwritten only if nobody gains rights by that; otherwise it is replaced. No symbolic link that is in the target
/// before is followed. But the target should be new, or trusted: the library uses paths, so whoever can rename entries
/// there meanwhile can lead it elsewhere.
///
/// # Errors
/// If the store cannot be reached, or the target is full or does not keep it. An entry that cannot be restored is
/// reported to the monitor and counted.
pub fn restore(access: &Access, options: &RestoreOptions, monitor: &dyn Monitor) -> Result<RestoreStats> {
    let begun = Instant::now();
    let store = Store::open(access, monitor)?;
    let held = Held::read(&store)?;
    let stored = held.find(&store, &options.id)?;
    // One of those that cannot be read may be newer.
    let unread = if options.id == "latest" { held.report(&store, monitor) } else { 0 };
    let name = stored.name.clone().unwrap_or_default();
    let action = format!("restore the snapshot {name} from");
    library_log::take();
    let (result, problems) = watch(
        &store.counts,
        Some("restoring"),
        monitor,
        || store.watch.end(),
        || {
            let open = || store.again()?.to_indexed();
            let repository = open().map_err(store.fault(&action))?;
            run(&Job { store: &store, repository: &repository, options, action: &action }, &stored)
        },
    )?;
    if monitor.is_cancelled() {
        return Err(Error::interrupted());
    }
    let mut stats = result.unwrap_or_else(|panic| Err(failure(&store, &action, &*panic)))?;
    stats.errors += problems + unread;
    stats.is_damaged |= unread > 0;
    let messages = library_log::take().into_iter().filter(|message| !message.starts_with("Note: additional"));
    for message in messages {
        stats.errors += 1;
        monitor.problem(&Error::failed("restore something").because(io::Error::other(message)));
    }
    Ok(RestoreStats { snapshot: name, seconds: begun.elapsed().as_secs_f64(), ..stats })
}

/// The error of a panic of the library.
fn failure(store: &Store, action: &str, panic: &(dyn Any + Send)) -> Error {
    store.read_failure(action).unwrap_or_else(|| guard::error(&format!("{action} {}", store.url), panic))
}

fn run(job: &Job<'_>, stored: &Stored) -> Result<RestoreStats> {
    let target = job.options.target.to_str().ok_or_else(|| {
        let cause = io::Error::other("its path is not UTF-8");
        Error::failed("restore below").at(&job.options.target).because(cause)
    })?;
    let selection = Selection::of(job, stored)?;
    let room = Room::new(job);
    let failed = |error| room.failure().unwrap_or_else(|| job.store.fault(job.action)(error));
    if job.options.dry_run && !job.options.target.exists() {
        return count(job, &selection, &room);
    }
    let mut library = rustic_core::RestoreOptions::default();
    (library.numeric_id, library.verify_existing) = (true, job.options.verify);
    let with_slash = format!("{}/", target.trim_end_matches('/'));
    let to = LocalDestination::new(&with_slash, !job.options.dry_run, false).map_err(failed)?;
    if !job.options.dry_run {
        room.filesystems.watch(&job.options.target)?;
    }
    let admit = |path: &_, node: &_| room.prepare(path, node);
    let nodes = selection.nodes(job, &room, Parts::All, &admit);
    let plan = job.repository.prepare_restore(&library, nodes, &to, job.options.dry_run).map_err(failed)?;
    let (recounted, recounted_bytes) = room.recounted();
    let mut stats = RestoreStats {
        files: plan.stats.files.restore + plan.stats.files.modify + recounted,
        unchanged: (plan.stats.files.unchanged + plan.stats.files.verified).saturating_sub(recounted),
        dirs: room.dirs(),
        restored_bytes: plan.restore_size + recounted_bytes,
        ..RestoreStats::default()
    };
    if !job.options.dry_run {
        fill(job, &room, || job.repository.restore(plan, &library, std::iter::empty(), &to))?;
        let lost = repair_content::repair_content(job, &selection, &room)?;
        stats.files = stats.files.saturating_sub(lost.files);
        stats.restored_bytes = stats.restored_bytes.saturating_sub(lost.bytes);
        // Now all files are whole, and lack only their metadata.
        room.filesystems.sync(&job.options.target)?;
        let finish = |path: &_, node: &_| room.finish(path, node);
        let nodes = selection.nodes(job, &room, Parts::Own, &finish);
        job.repository.restore(RestorePlan::default(), &library, nodes, &to).map_err(failed)?;
        room.filesystems.sync(&job.options.target)?;
    }
    match room.failure() {
        Some(error) => Err(error),
        None => Ok(RestoreStats { is_damaged: room.is_damaged(), ..stats }),
    }
}

/// Runs the library. If it fails for a reason that may concern only some of the files, they are left to
/// `repair_content`.
fn fill(job: &Job<'_>, room: &Room<'_>, work: impl FnOnce() -> rustic_core::RusticResult<()>) -> Result<()> {
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => match room.failure() {
            Some(error) => return Err(error),
            None => job.store.fault(job.action)(error),
        },
        Err(panic) => failure(job.store, job.action, &*panic),
    };
    let is_over = job.store.counts.is_cancelled() || damage::ends_run(&error) || !damage::is_there(job.store);
    if is_over { Err(error) } else { Ok(()) }
}

/// Counts what would be restored into a new directory.
fn count(job: &Job<'_>, selection: &Selection, room: &Room<'_>) -> Result<RestoreStats> {
    let mut stats = RestoreStats::default();
    for node in selection.nodes(job, room, Parts::All, &|path, node| room.prepare(path, node)) {
        let (path, node) =
            node.map_err(|error| room.failure().unwrap_or_else(|| job.store.fault(job.action)(error)))?;
        if node.is_file() && !room.is_another_name(&path, &node) {
            stats.files += 1;
            stats.restored_bytes += node.meta.size;
        }
    }
    Ok(RestoreStats { dirs: room.dirs(), is_damaged: room.is_damaged(), ..stats })
}
