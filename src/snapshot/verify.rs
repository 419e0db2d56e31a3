//! Verifies snapshots: each tree against its manifest, by status and by content.
//!
//! - `merge` joins the manifests of all snapshots, sorted as they are, into one stream: each path once. So one path's
//!   files are in memory, however many snapshots there are.
//! - `levels` has the directories of each snapshot, and finds entries without a record. `batch` checks paths in
//!   parallel. `lookup` gets the status of their entries first.
//! - `path` compares the status of one path in all snapshots (`compare`), and passes its files on to `content`: files
//!   on the same blocks are read once, by `reading` (`results` remembers them across paths). `claim` reports each file.
//!   Files that are not small go through the `queue`, which has all work (`progress`: that of a batch). `sharing`
//!   measures extents.
//! - `part` chooses the content that one run of `--read` reads.
//! - `repair` replaces damaged files afterwards, if that is requested. `findings` and `work` list them, `origin` has
//!   the sound copies, `partners` the other names of a file, and `replace` makes the new files.
//!
//! `record` keeps the result for reports. Without a repair, nothing else is changed, and the repository's lock is not
//! taken. Each manifest is locked against removal. A snapshot that is deleted nevertheless is recognised by its
//! directory.

mod batch;
mod claim;
mod compare;
mod content;
mod context;
mod findings;
mod levels;
mod lookup;
mod member;
mod merge;
mod options;
mod origin;
mod part;
mod partners;
mod path;
mod progress;
mod queue;
mod reading;
mod record;
mod repair;
mod replace;
mod results;
mod sharing;
mod stats;
mod work;

pub use options::{Options, RepairFrom};
pub use stats::{Row, Stats, Stopped};

use super::recording_monitor::Noting;
use super::repository::{self, Clearing, Lock, Repository};
use super::unreadable::{check_filesystem, is_lost};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::filesystem::Kind;
use crate::fs::open_files;
use crate::fs::procfs;
use crate::monitor::{Amount, Damage, Event, Fault, Monitor};
use crate::util::parallel::READERS;
use crate::util::path::join;
use crate::util::semaphore::Semaphore;
use batch::Batch;
use context::{Context, Count, Snapshot};
use findings::Findings;
use levels::Levels;
use merge::{Merge, Next};
use origin::Origin;
use part::Part;
use queue::Queue;
use repair::Done;
use results::Results;
use std::path::Path;
use std::time::Instant;

/// How many directories of each snapshot are held open, at most.
const NEAREST: u64 = 16;

/// Verifies the snapshots `ids` of the repository at `repo`; without IDs, all of them. The monitor gets each damaged
/// entry.
///
/// ```
/// use pleach::monitor::Recording;
/// use pleach::snapshot::{create, verify};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// let letter = source.canonicalize()?.join("letter");
/// let made = create::create(&[source], &repo, &create::Options::default(), &Recording::default())?;
///
/// let monitor = Recording::default();
/// let stats = verify::verify(&repo, &[], &verify::Options::default(), &monitor)?;
/// assert_eq!((stats.damaged, stats.checked_files), (0, 1));
///
/// std::fs::remove_file(repo.join(&made.name).join(letter.strip_prefix("/")?))?;
/// let stats = verify::verify(&repo, &[], &verify::Options::default(), &monitor)?;
/// assert!(stats.damaged > 0);
/// assert!(monitor.damage.lock().unwrap().iter().any(|(_, path, _)| *path == letter));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the repository cannot be read, an ID means no snapshot, or the run is cancelled. [`Stopped`] has the work that
/// was done by then.
pub fn verify(repo: &Path, ids: &[String], options: &Options, monitor: &dyn Monitor) -> Result<Stats, Stopped> {
    let begun = Instant::now();
    if options.read.is_some_and(|percent| !(percent > 0.0 && percent <= 100.0)) {
        return Err(Error::usage("read a part that is not above 0 % and at most 100 %").into());
    }
    if options.quick && options.repair_from.is_some() {
        return Err(Error::usage("repair without reading the content").into());
    }
    procfs::require()?;
    let repository = Repository::open(repo)?;
    let noting = Noting::new(monitor);
    let monitor: &dyn Monitor = &noting;
    let repair = options.repair_from.as_ref().map(|from| Repair::begin(&repository, from, monitor)).transpose()?;
    let part = options.read.map(|percent| Part::new(repository::verified(&repository), percent));
    let mut stats = Stats::default();
    let (snapshots, is_all) = choose(&repository, ids, monitor, &mut stats)?;
    monitor.phase("verifying", Some(expected(&snapshots, options, part)));
    let (results, read_bytes, errors) = (Results::default(), Count::default(), Count::default());
    let mut result = Ok(());
    // Each snapshot needs some open directories. Content is read once also across these groups.
    for snapshots in snapshots.chunks(open_files::part(8, 32..=4096)) {
        let is_xfs = snapshots.iter().any(|snapshot| Kind::of(&snapshot.tree).is_ok_and(|kind| kind == Kind::Xfs));
        let maps = Semaphore::new(if is_xfs { 1 } else { options.threads.unwrap_or(READERS) });
        let (repository, results, read_bytes, errors) = (&repository, &results, &read_bytes, &errors);
        let findings = repair.as_ref().map(|repair| &repair.findings);
        let context =
            Context { repository, options, monitor, snapshots, part, results, maps, read_bytes, errors, findings };
        result = walk(&context);
        context.finish();
        if result.is_err() {
            break;
        }
    }
    let mut done = Done::default();
    if let (Ok(()), Some(Repair { origin, findings, .. })) = (&result, &repair) {
        result = repair::repair(&repository, &snapshots, origin, findings.take(), monitor, &mut done);
    }
    stats.repaired = done.repaired;
    let left = repair.as_ref().map_or(0, |repair| repair.errors);
    stats.add(&snapshots, read_bytes.get(), errors.get() + done.errors + left);
    if stats.damaged + stats.errors > 0 {
        check_filesystem(&repository)?;
    }
    if let (Ok(()), Some(part), true) = (&result, part, ids.is_empty() && is_all)
        && let Err(error) = repository::note_verified(&repository, part.end())
    {
        monitor.event(Event::PositionNotRecorded(&error));
    }
    stats.seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            record::record(&repository, ids.is_empty() && is_all, options, &stats, noting);
            Ok(stats)
        }
        Err(error) => Err(Stopped::after(error, stats)),
    }
}

/// What a repair needs from the beginning of the verification.
struct Repair {
    origin: Origin,
    findings: Findings,
    /// What a killed repair left and could not be completed.
    errors: u64,
    /// Keeps other runs away.
    _lock: Lock,
}

impl Repair {
    /// Takes the lock, completes a repair that was killed, and opens the sound copies.
    fn begin(repository: &Repository, from: &RepairFrom, monitor: &dyn Monitor) -> Result<Repair> {
        let lock = repository.lock(monitor)?;
        let clearing = Clearing::new(monitor);
        repository::complete_repairs(repository, &clearing);
        let (origin, errors) = (Origin::open(repository, from)?, clearing.errors());
        Ok(Repair { origin, findings: Findings::default(), errors, _lock: lock })
    }
}

/// Opens the snapshots, oldest first. Those that cannot be verified are reported. Returns too whether a later run can
/// verify no others of them: a damaged one never can be.
fn choose(
    repository: &Repository,
    ids: &[String],
    monitor: &dyn Monitor,
    stats: &mut Stats,
) -> Result<(Vec<Snapshot>, bool)> {
    let mut is_all = true;
    let mut orphans = repository.trees_without_manifest()?;
    let mut treeless = repository.manifests_with_other_tree()?;
    let mut names = Vec::new();
    match ids {
        [] => names = repository.snapshot_names()?,
        ids => {
            orphans.retain(|name| ids.contains(name));
            treeless.retain(|name| ids.contains(name));
            for id in ids.iter().filter(|id| !orphans.contains(id) && !treeless.contains(id)) {
                // Its manifest may be damaged, so it need not be readable.
                names.push(repository.name_of(id)?);
            }
        }
    }
    repository.report_other_trees(&treeless, monitor);
    let faults = orphans.iter().map(|name| (name, Fault::NoManifest));
    for (name, fault) in faults.chain(treeless.iter().map(|name| (name, Fault::Type))) {
        monitor.damage(&Damage::new(name, &repository.path().join(name), fault));
        stats.damaged += 1;
    }
    names.sort();
    names.dedup();
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for name in names {
        let opened = repository.manifest(&name).and_then(|manifest| Ok((manifest, repository.tree(&name)?)));
        match opened {
            Ok((manifest, tree)) => snapshots.push(Snapshot::new(name, manifest, tree)),
            Err(error) if error.kind() == ErrorKind::Damage || is_lost(&error) => {
                check_filesystem(repository)?;
                let mut fault = Fault::Unreadable;
                if error.kind() == ErrorKind::Damage {
                    monitor.problem(&error);
                    stats.errors += 1;
                    fault = Fault::Manifest;
                }
                let path = error.path().unwrap_or(repository.path());
                monitor.damage(&Damage::new(&name, path, fault));
                stats.damaged += 1;
                stats.rows.push(Row { name, damaged: 1, ..Row::default() });
            }
            Err(error) if error.is_not_found() => {
                monitor.event(Event::SnapshotDeleted(&name));
            }
            Err(error) => {
                monitor.problem(&error);
                stats.errors += 1;
                is_all = false;
            }
        }
    }
    // The names are already sorted, and this sort is stable.
    snapshots.sort_by_key(|snapshot| snapshot.manifest.header().created);
    Ok((snapshots, is_all))
}

fn expected(snapshots: &[Snapshot], options: &Options, part: Option<Part>) -> Amount {
    let mut amount = Amount::default();
    for totals in snapshots.iter().map(|snapshot| snapshot.manifest.totals()) {
        amount.files = amount.files.saturating_add(totals.entries());
        amount.bytes = amount.bytes.saturating_add(totals.bytes);
    }
    let fraction = if options.quick { 0.0 } else { part.map_or(1.0, |part| part.fraction()) };
    Amount { bytes: (amount.bytes as f64 * fraction) as u64, ..amount }
}

/// Checks all paths of these snapshots.
fn walk(context: &Context<'_>) -> Result<()> {
    /// Ends the threads of a queue, also after a panic.
    struct Closing<'q>(&'q Queue);
    impl Drop for Closing<'_> {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    let queue = Queue::new(path::check);
    std::thread::scope(|scope| {
        let closing = Closing(&queue);
        let threads = (1..=context.options.threads.unwrap_or(READERS).max(1)).filter(|number| {
            let thread = std::thread::Builder::new().name(format!("verify-{number}"));
            thread.spawn_scoped(scope, || queue.work(context)).is_ok()
        });
        let has_threads = threads.count() > 0;
        merge(context, Batch::new(closing.0, has_threads))
    })
}

/// Passes all paths of these snapshots on to a batch.
fn merge(context: &Context<'_>, mut batch: Batch<'_>) -> Result<()> {
    let number = context.snapshots.len();
    let nearest = open_files::part(16 * number.max(1) as u64, 1..=NEAREST as usize);
    let mut levels: Vec<_> = (0..number).map(|snapshot| Levels::new(snapshot, nearest)).collect();
    let mut merge = Merge::of(context.snapshots.iter().map(|snapshot| &snapshot.manifest).enumerate());
    while let Some(next) = merge.next() {
        match next {
            Next::Directories(records) => {
                batch.opened(records.len());
                for (snapshot, record) in records {
                    levels[snapshot].enter(context, &record, &mut batch.endings);
                    if context.snapshots[snapshot].is_deleted() {
                        merge.end(snapshot);
                    }
                }
            }
            Next::Entries(directory, entries) => {
                let Some(name) = entries.first().map(|(_, entry)| &entry.name) else { continue };
                let path = join(&directory, name);
                let mut members = Vec::with_capacity(entries.len());
                for (snapshot, entry) in entries {
                    let place = levels[snapshot].entry(context, &directory, &mut batch.endings);
                    members.extend(place.map(|place| (snapshot, place, entry)));
                }
                batch.push(path, members);
            }
            Next::Lost(snapshot, error) => {
                levels[snapshot].lost();
                lost(context, snapshot, &error);
            }
        }
        batch.start_if_full(context)?;
    }
    levels.iter_mut().for_each(|levels| levels.finish(&mut batch.endings));
    batch.finish(context)
}

/// Reports a block of a manifest that cannot be used.
fn lost(context: &Context<'_>, snapshot: usize, error: &Error) {
    context.problem(error);
    if error.kind() != ErrorKind::Damage && !is_lost(error) {
        return;
    }
    let snapshot = &context.snapshots[snapshot];
    context.monitor.damage(&Damage::new(&snapshot.name, snapshot.manifest.path(), Fault::Manifest));
    snapshot.counts.damaged.add(1);
}
