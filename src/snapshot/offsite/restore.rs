//! Restores a snapshot from a store, or parts of it. The library writes the files.
//!
//! The library stops at the first entry that it cannot write or read. So `room` keeps entries from it that cannot be
//! written, and `mend` goes through the files one by one if the library could not restore all of them.

mod damage;
mod mend;
mod room;
mod selection;

use super::progress::watch;
use super::store::{Access, Store};
use super::stored::{Stored, find};
use super::{guard, library_log};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use room::Room;
use rustic_core::{IndexedFullStatus, LocalDestination, Repository};
use selection::{Parts, Selection};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

/// The parts to restore, and the target.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct RestoreOptions {
    /// The snapshot: its name, the beginning of it, its ID in the store, or `latest`.
    pub id: String,
    /// Absolute paths in it. Without any, everything.
    pub paths: Vec<PathBuf>,
    /// The directory below which the paths are restored.
    pub target: PathBuf,
    /// Read existing files, even if their size and time match.
    pub verify: bool,
    /// Count what would be restored, and change nothing.
    pub dry_run: bool,
}

impl RestoreOptions {
    /// Restores the latest snapshot below `target`.
    pub fn new(target: PathBuf) -> RestoreOptions {
        RestoreOptions { id: "latest".into(), paths: Vec::new(), target, verify: false, dry_run: false }
    }
}

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

type Indexed = Repository<IndexedFullStatus>;

/// Restores a snapshot, or parts of it. Existing files with the same size and time are kept, others are replaced.
///
/// The target should be new, or trusted: the library follows symbolic links in it.
///
/// # Errors
/// If the store cannot be reached, or the target is full. An entry that cannot be restored is reported to the monitor
/// and counted.
pub fn restore(access: &Access, options: &RestoreOptions, monitor: &dyn Monitor) -> Result<RestoreStats> {
    let begun = Instant::now();
    let store = Store::open(access)?;
    let stored = find(&store, &options.id)?;
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
            Run { store: &store, repository: &repository, options, action: &action }.run(&stored)
        },
    );
    if monitor.is_cancelled() {
        return Err(Error::interrupted());
    }
    let mut stats = result.unwrap_or_else(|panic| Err(failure(&store, &action, &*panic)))?;
    stats.errors += problems;
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

/// A restore in progress.
struct Run<'r> {
    store: &'r Store,
    repository: &'r Indexed,
    options: &'r RestoreOptions,
    action: &'r str,
}

impl Run<'_> {
    fn run(&self, stored: &Stored) -> Result<RestoreStats> {
        let failed = self.store.fault(self.action);
        let target = self.options.target.to_str().ok_or_else(|| {
            let cause = io::Error::other("its path is not UTF-8");
            Error::failed("restore below").at(&self.options.target).because(cause)
        })?;
        let selection = Selection::of(self, stored)?;
        let room = Room::new(self);
        if self.options.dry_run && !self.options.target.exists() {
            return self.count(&selection, &room);
        }
        let mut library = rustic_core::RestoreOptions::default();
        (library.numeric_id, library.verify_existing) = (true, self.options.verify);
        let with_slash = format!("{}/", target.trim_end_matches('/'));
        let to = LocalDestination::new(&with_slash, !self.options.dry_run, false).map_err(&failed)?;
        let admit = |path: &_, node: &_| room.prepare(path, node);
        let nodes = selection.nodes(self, &room, Parts::All, &admit);
        let plan = self.repository.prepare_restore(&library, nodes, &to, self.options.dry_run);
        let plan = plan.map_err(|error| room.failure().unwrap_or_else(|| failed(error)))?;
        let mut stats = RestoreStats {
            files: plan.stats.files.restore + plan.stats.files.modify,
            unchanged: plan.stats.files.unchanged + plan.stats.files.verified,
            dirs: room.dirs(),
            restored_bytes: plan.restore_size,
            ..RestoreStats::default()
        };
        let finish = |path: &_, node: &_| room.finish(path, node);
        let finish = || selection.nodes(self, &room, Parts::Own, &finish);
        if !self.options.dry_run && self.fails(&room, || self.repository.restore(plan, &library, finish(), &to))? {
            let lost = mend::mend(self, &selection, &room)?;
            stats.files = stats.files.saturating_sub(lost.files);
            stats.restored_bytes = stats.restored_bytes.saturating_sub(lost.bytes);
            // Now all files are whole, and lack only their metadata.
            library.verify_existing = false;
            let whole = |path: &_, _: &_| !room.skips(path);
            let nodes = selection.nodes(self, &room, Parts::All, &whole);
            let plan = self.repository.prepare_restore(&library, nodes, &to, false).map_err(&failed)?;
            self.repository.restore(plan, &library, finish(), &to).map_err(&failed)?;
        }
        match room.failure() {
            Some(error) => Err(error),
            None => Ok(RestoreStats { is_damaged: room.is_damaged(), ..stats }),
        }
    }

    /// Runs the library. Returns whether it failed for a reason that may concern only some of the files.
    fn fails(&self, room: &Room<'_>, work: impl FnOnce() -> rustic_core::RusticResult<()>) -> Result<bool> {
        let error = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => return Ok(false),
            Ok(Err(error)) => match room.failure() {
                Some(error) => return Err(error),
                None => self.store.fault(self.action)(error),
            },
            Err(panic) => failure(self.store, self.action, &*panic),
        };
        let is_over = self.store.counts.is_cancelled() || damage::ends_run(&error) || !damage::is_there(self.store);
        if is_over { Err(error) } else { Ok(true) }
    }

    /// Counts what would be restored into a new directory.
    fn count(&self, selection: &Selection, room: &Room<'_>) -> Result<RestoreStats> {
        let mut stats = RestoreStats::default();
        for node in selection.nodes(self, room, Parts::All, &|path, node| room.prepare(path, node)) {
            let (path, node) =
                node.map_err(|error| room.failure().unwrap_or_else(|| self.store.fault(self.action)(error)))?;
            if node.is_file() && !room.is_another_name(&path, &node) {
                stats.files += 1;
                stats.restored_bytes += node.meta.size;
            }
        }
        Ok(RestoreStats { dirs: room.dirs(), is_damaged: room.is_damaged(), ..stats })
    }
}
