//! Takes a snapshot: walks the sources in step with the last manifest, adds every entry to a staging tree, publishes
//! the tree.
//!
//! The way of an entry: the walk gives it to `visitor`; `entries` looks it up and decides (`source_entry`,
//! `inherited_entry`); `file` and `node` add it, `hard_link` adds further names of an inode; `merge` writes its record
//! to the manifest and finds entries that are gone. Each way to add a regular file has its own module: `new_file`,
//! `changed_file`, `renamed_file`, `resumed_file`, `unchanged_link`; `reused_file` keeps the inode of a changed file.
//! `context` is the state that every step shares, and `target` is the place where the entries of one directory go.

mod added_entry;
mod changed_file;
mod content_index;
mod context;
mod cost;
mod decide;
mod directory;
mod emptied;
mod entries;
mod failure;
mod file;
mod file_hash;
mod finished_list;
mod freeze;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod hard_link;
mod header;
mod inherited_entry;
mod large_file;
mod link_map;
mod merge;
mod narrowing;
mod new_file;
mod node;
mod options;
mod past;
mod planned;
mod previous;
mod recheck;
mod refuse;
mod removal;
mod renamed_file;
mod resume;
mod resumed_file;
mod retained;
mod reused_file;
mod scope;
mod source_entry;
mod source_file;
mod spot_check;
mod staged;
mod staged_directory;
mod stats;
mod swept;
mod target;
mod timestamp;
mod unchanged_link;
mod unsettled;
mod visit;
mod visitor;
mod watch;
mod ways;

pub use options::{Hash, Options, Subvolumes, Unchanged};
pub(crate) use past::{Past, end_past};
pub(crate) use removal::Removal;
pub use stats::Stats;

use crate::error::{ErrorKind, Result};
use crate::fs::filesystem::{Filesystem, Kind};
use crate::fs::procfs;
use crate::monitor::{Event, Monitor};
use crate::snapshot::manifest::{self, Header, Time, Writer};
use crate::snapshot::recording_monitor::{Notes, Noting};
use crate::snapshot::repository::{
    self, BlockHashes, Clearing, Latest, Problems, Published, Repository, Seen, Staging, Start,
};
use crate::tree::walk::Sources;
use freeze::Frozen;
use header::header;
use past::Scaffold;
use previous::{Candidates, Previous};
use resume::Resume;
use staged::Staged;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;
use timestamp::Timestamp;
use visit::{Base, visit};

/// Takes a snapshot of `sources` into the repository at `repo`, which is created if it is missing.
///
/// ```
/// use pleach::snapshot::create::{Options, create};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
///
/// let stats = create(&[source], &repo, &Options::default(), &pleach::monitor::Silent)?;
/// assert_eq!((stats.new_files, stats.errors), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the snapshot as a whole is impossible. Then no snapshot appears, and earlier snapshots stay. A single entry
/// that cannot be added is reported to the monitor, counted in [`Stats::errors`], and skipped.
pub fn create(sources: &[PathBuf], repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    procfs::require()?;
    let sources = Sources::resolve(sources)?;
    refuse::overlap(&sources, repo)?;
    if options.freeze {
        Frozen::check(&sources)?;
    }
    let mut stats = if options.dry_run {
        plan(&sources, repo, options, monitor)?
    } else {
        take(&sources, repo, None, options, monitor)?
    };
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// Takes a snapshot of a tree that another program kept, as one of the time when that was made.
///
/// # Errors
/// As [`create`].
pub(crate) fn create_past(past: &Past, repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    procfs::require()?;
    refuse::overlap(&Sources::exact(vec![past.tree()]), repo)?;
    let stats = take(&past.sources(), repo, Some(past), options, monitor)?;
    Ok(Stats { seconds: begun.elapsed().as_secs_f64(), ..stats })
}

fn take(
    sources: &Sources,
    repo: &Path,
    past: Option<&Past>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let (noting, outer) = (Noting::new(monitor), monitor);
    let monitor: &dyn Monitor = &noting;
    // A new repository cannot have the parent that the user names.
    let repository = match &options.parent {
        Some(_) => Repository::open(repo)?,
        None => Repository::open_or_make(repo, monitor)?,
    };
    let _lock = repository.lock(monitor)?;
    repository::try_clearing(&repository, &repository::leftovers(&repository)?, options.threads_for(true), monitor)?;
    repository.report_strays(monitor)?;
    let filesystem = Filesystem::probe(repository.fd(), repo)?;
    if !filesystem.reflink {
        let unchanged_are_linked = options.unchanged == Unchanged::Hardlink;
        monitor.event(Event::NoReflinks { filesystem: &filesystem.kind.to_string(), unchanged_are_linked });
    }
    if repository::try_publishing(&repository)? {
        monitor.event(Event::CaseInsensitive);
    }
    let begun = Time::now();
    let mut candidates = candidates(&repository, sources, options, monitor)?;
    emptied::refuse(sources, &repository, options, monitor)?;
    let timestamp = match past {
        Some(past) => Timestamp { begun, created: past.created },
        None => Timestamp::behind(candidates.newest, begun),
    };
    if past.is_none() {
        timestamp.report(monitor);
    }
    loop {
        let previous = candidates.open(monitor)?;
        match take_beside(&repository, filesystem, (sources, past), timestamp, previous.as_ref(), options, &noting) {
            // A block of the manifest was damaged. That is found only when the block is read.
            Err(error) if error.kind() == ErrorKind::Damage && previous.is_some() => {
                candidates.pass_over(error, monitor);
            }
            Ok((mut stats, published)) => {
                let Notes { problems: first, count, skipped, skipped_count, .. } = noting.finish();
                if count > 0 {
                    let problems = Problems { count, first, skipped, skipped_count: Some(skipped_count) };
                    repository::note_problems(&repository, &stats.name, &problems);
                }
                stats.is_volatile = published.synced.is_err();
                stats.errors += end(&repository, &published, past.is_some(), options, outer);
                return Ok(stats);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reports the steps that failed after a snapshot had appeared, corrects `latest` after one of the past, and clears the
/// leftovers. Returns the number of problems, which the snapshot itself does not have.
fn end(repository: &Repository, published: &Published, is_past: bool, options: &Options, monitor: &dyn Monitor) -> u64 {
    let clearing = Clearing::new(monitor);
    published.errors().for_each(|error| clearing.problem(error));
    let corrected = if is_past { repository::correct_latest(repository) } else { Ok(()) };
    // That the link could not be synced either is not news.
    if let Err(error) = corrected
        && published.synced.is_ok()
    {
        clearing.problem(&error.or_hint("the snapshot is complete"));
    }
    if !published.is_settled() {
        // After a power cut the leftovers may be needed again.
        return clearing.errors();
    }
    // The snapshot is complete, also if this is interrupted.
    let _ = repository::clear_leftovers(repository, &[], options.threads_for(true), &clearing);
    clearing.errors()
}

/// Takes the snapshot and compares it with an earlier one. Returns its counts.
///
/// # Errors
/// Kind `Damage` if the manifest of the earlier snapshot is damaged; nothing of the new snapshot is left then.
fn take_beside(
    repository: &Repository,
    filesystem: Filesystem,
    (sources, past): (&Sources, Option<&Past>),
    timestamp: Timestamp,
    previous: Option<&Previous>,
    options: &Options,
    noting: &Noting<'_>,
) -> Result<(Stats, Published)> {
    let monitor: &dyn Monitor = noting;
    let name = repository::free_name(repository, options.name.as_deref(), timestamp.created)?;
    // Data written before the run does not count as its cost.
    repository.sync()?;
    let before = repository::space(repository.fd());
    let leftovers = repository::leftovers(repository)?;
    let start = start(repository, filesystem, previous, options, monitor)?;
    let staging = repository::begin(repository, &name, start)?;
    let is_based = staging.is_based;
    let resume = Resume::begin(&staging, leftovers, timestamp.begun);
    let parent = previous.map(|previous| previous.reader.header());
    let blocks = repository::blocks(repository, &staging, parent.map(|parent| parent.name.as_str()))?;
    let header = header(&name, timestamp.created, sources, options, previous);
    let seen = parent.zip(previous).and_then(|(parent, previous)| {
        let is_live = past.is_none() && is_based;
        is_live.then(|| repository::seen(repository, &parent.name, &previous.reader.identity())).flatten()
    });
    let is_noted = past.is_none() && staging.is_subvolume && rustix::process::geteuid().is_root();
    let result = freeze((sources, past), repository, options, monitor).and_then(|(frozen, _scaffold)| {
        let result = fill(&staging, filesystem, (blocks, resume), &header, |staged| {
            let base = Base { own: frozen.own(repository), previous, seen, is_noted, frozen: frozen.uuids() };
            visit(&frozen.sources(sources), base, Some((staged, timestamp)), options, noting)
        });
        let result = result.and_then(|filled| {
            past.map_or(Ok(()), |past| past.check_unchanged(&staging.read_manifest()?)).map(|()| filled)
        });
        frozen.end(monitor);
        result
    });
    repository::remove_frozen_dir(repository);
    match result {
        Ok((stats, seen)) => {
            monitor.phase("publishing", None);
            let latest = if past.is_some() { Latest::Stays } else { Latest::Moves };
            let published = repository::publish(repository, staging, latest)?;
            // After a power cut, the records about the snapshot before may be needed again.
            let replaced = parent.filter(|_| published.is_settled());
            note_seen(repository, (&name, replaced.map(|parent| parent.name.as_str())), seen);
            let stats = cost::measure(Stats { name, ..stats }, repository, (before, filesystem), is_based, options);
            if let Some(parent) = replaced.filter(|parent| parent.sources == header.sources) {
                repository::drop_blocks(repository, &parent.name);
            }
            Ok((stats, published))
        }
        // An interrupted run must stop quickly: the next run clears the leftovers.
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
        Err(error) => {
            // The error that ended the run matters more than an error of clearing, which the next run tries again.
            let _ = repository::discard(repository, staging, options.threads_for(true), monitor);
            Err(error)
        }
    }
}

/// Records what the run saw of its sources, for the next run.
fn note_seen(repository: &Repository, (name, parent): (&str, Option<&str>), seen: Option<Seen>) {
    if let Some(seen) = seen
        && let Ok(manifest) = repository.manifest(name)
    {
        repository::note_seen(repository, (name, parent), &Seen { manifest: manifest.identity(), ..seen });
    }
}

/// The directories that are read in place of the live ones.
fn freeze(
    (sources, past): (&Sources, Option<&Past>),
    repository: &Repository,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<(Frozen, Scaffold)> {
    if let Some(past) = past {
        let (stand_ins, scaffold) = past.stand_ins(repository)?;
        return Ok((Frozen::of(stand_ins), scaffold));
    }
    let frozen = if options.freeze { Frozen::freeze(sources, repository, monitor)? } else { Frozen::default() };
    Ok((frozen, Scaffold::default()))
}

/// How the new tree begins: on Btrfs as a snapshot of the last tree, if possible.
fn start<'a>(
    repository: &Repository,
    filesystem: Filesystem,
    previous: Option<&'a Previous>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Start<'a>> {
    // A file cannot have names in two subvolumes.
    let links = options.unchanged == Unchanged::Hardlink;
    if filesystem.kind != Kind::Btrfs || options.subvolumes == Subvolumes::Never || links {
        return Ok(Start::Directory);
    }
    // Only root may write to the directories of the last tree whatever their modes, and restore their owners.
    if !rustix::process::geteuid().is_root() || !repository::can_make_subvolumes(repository) {
        monitor.event(Event::NoSubvolumes);
        return Ok(Start::Directory);
    }
    let Some(previous) = previous else { return Ok(Start::Subvolume) };
    let name = &previous.reader.header().name;
    if previous.reader.version() != manifest::VERSION {
        // Its records, and perhaps its tree, lack metadata that this version stores.
        return Ok(Start::Subvolume);
    }
    if repository::is_as_published(repository, name)? {
        monitor.event(Event::TreeFromSnapshot(name));
        return Ok(Start::SnapshotOf(previous.tree.as_fd()));
    }
    if repository::is_subvolume(repository, name)? {
        monitor.event(Event::SnapshotChanged(name));
    }
    Ok(Start::Subvolume)
}

fn fill(
    staging: &Staging,
    filesystem: Filesystem,
    (blocks, resume): (BlockHashes, Resume),
    header: &Header,
    visit: impl FnOnce((Staged, Writer)) -> Result<(Stats, Option<Seen>)>,
) -> Result<(Stats, Option<Seen>)> {
    let writer = Writer::create(staging.create_manifest()?, &staging.manifest, header)?;
    let mut staged = Staged::new(staging, blocks, filesystem)?;
    staged.resume = resume;
    visit((staged, writer))
}

fn plan(sources: &Sources, repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let noting = Noting::new(monitor);
    let repository = match &options.parent {
        Some(_) => Some(Repository::open(repo)?),
        None => Repository::open_if_made(repo)?,
    };
    let Some(repository) = repository else {
        monitor.event(Event::RepositoryMissing(repo));
        monitor.event(Event::NothingEarlier);
        let (stats, _) = visit(sources, Base::default(), None, options, &noting)?;
        return Ok(Stats { is_first: true, ..stats });
    };
    let mut candidates = candidates(&repository, sources, options, monitor)?;
    emptied::refuse(sources, &repository, options, monitor)?;
    let mut is_first = None;
    loop {
        let previous = candidates.open(monitor)?;
        // A damaged snapshot is an earlier one too.
        let is_first = *is_first.get_or_insert(previous.is_none());
        if is_first {
            monitor.event(Event::NothingEarlier);
        }
        let own = Frozen::default().own(&repository);
        let base = Base { own, previous: previous.as_ref(), ..Base::default() };
        match visit(sources, base, None, options, &noting).map(|(stats, _)| Stats { is_first, ..stats }) {
            Err(error) if error.kind() == ErrorKind::Damage && previous.is_some() => {
                candidates.pass_over(error, monitor);
            }
            result => return result,
        }
    }
}

/// The snapshots that the new one can be compared with.
fn candidates<'r>(
    repository: &'r Repository,
    sources: &Sources,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Candidates<'r>> {
    match &options.parent {
        Some(id) => Candidates::named(repository, id),
        None => Candidates::of(repository, sources, monitor),
    }
}
