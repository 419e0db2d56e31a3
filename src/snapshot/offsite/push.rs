//! Sends snapshots of a repository to a store, oldest first, each by `archive`.
//!
//! `source` is a snapshot as the library wants to read it, with `order`, `node`, `tree` and `content`. `unchanged`
//! finds that nothing changed, `unfinished` what a killed run sent.

mod archive;
mod content;
mod node;
mod order;
mod source;
mod tree;
mod unchanged;
mod unfinished;

use super::held::Held;
use super::store::{Access, Store};
use super::stored::{Stored, describe};
use super::url::local;
use crate::error::{Error, ErrorKind, Result, Stopped};
use crate::monitor::{Amount, Event, Monitor};
use crate::snapshot::manifest::Reader;
use crate::snapshot::outgoing::{self, Outgoing, Selection};
use crate::snapshot::repository::{self, Repository, SnapshotInfo};
use crate::snapshot::unreadable::check_filesystem;
use crate::util::time_zone;
use archive::{Failure, Sent, archive, check_settings, files_of, publish};
use jiff::Timestamp;
use rustic_core::repofile::SnapshotFile;
use source::Source;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tree::Tree;
use unchanged::have_same_tree;
use unfinished::Unfinished;

/// The choice of snapshots.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct PushOptions {
    /// The snapshots, by their IDs. Without any: all, or the last ones.
    pub ids: Vec<String>,
    /// Send only this many of the newest snapshots.
    pub last: Option<usize>,
    /// Find out what would be sent, and change nothing.
    pub dry_run: bool,
}

/// The result.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PushStats {
    /// The snapshots that were sent or, in a dry run, would be.
    pub snapshots: Vec<Pushed>,
    /// The problems: files that could not be read, and snapshots that could not be sent.
    pub errors: u64,
    /// Whether a snapshot is missing in the store.
    pub is_incomplete: bool,
    /// Whether something in the repository is damaged.
    pub is_damaged: bool,
    /// How long it took.
    pub seconds: f64,
}

/// A push that ended early.
pub type PushStopped = Stopped<PushStats>;

/// A snapshot that was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushed {
    /// Its name.
    pub name: String,
    /// Its ID in the store. Empty in a dry run.
    pub id: String,
    /// The ID of the snapshot in the store that it was compared with.
    pub parent: Option<String>,
    /// Its files, links and special files.
    pub files: u64,
    /// Bytes that were read from its tree.
    pub read_bytes: u64,
    /// Bytes that were added to the store, compressed and encrypted.
    pub stored_bytes: u64,
}

/// Whether the store has this snapshot of the repository, with all its files or not.
fn is_in(local: &Outgoing, held: &[Stored]) -> bool {
    held.iter().any(|stored| stored.is(&local.info.name, &local.identity))
}

/// Whether this is the snapshot of the repository in the store, with all its files. The library drops those that cannot
/// be read.
fn is_whole(local: &Outgoing, stored: &Stored) -> bool {
    stored.is(&local.info.name, &local.identity)
        && !stored.is_incomplete()
        && stored.files().is_none_or(|files| files == files_of(&local.info))
}

/// Sends to a store the snapshots of the repository at `repo` that it lacks.
///
/// Each snapshot in the store is complete. An interrupted run loses nothing but its last snapshot, and the next one
/// does not send again what arrived.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, offsite};
/// use std::os::unix::fs::PermissionsExt;
/// let dir = tempfile::tempdir()?;
/// let (source, repo, password) = (dir.path().join("source"), dir.path().join("repo"), dir.path().join("password"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source.clone()], &repo, &create::Options::default(), &Silent)?;
///
/// std::fs::write(&password, "a long sentence")?;
/// std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600))?;
/// let url = offsite::Url::parse(dir.path().join("store").as_os_str())?;
/// let secrets = offsite::Secrets { password_file: Some(password), ..Default::default() };
/// let mut access = offsite::Access::new(url, secrets);
/// access.no_cache = true;
/// offsite::init(&access, &Silent)?;
/// let stats = offsite::push(&repo, &access, &offsite::PushOptions::default(), &Silent)?;
/// assert_eq!((stats.snapshots.len(), stats.errors), (1, 0));
/// assert_eq!(offsite::list(&access, &Silent)?.snapshots.len(), 1);
///
/// offsite::restore(&access, &offsite::RestoreOptions::new(dir.path().join("restored")), &Silent)?;
/// let restored = dir.path().join("restored").join(source.strip_prefix("/")?).join("letter");
/// assert_eq!(std::fs::read_to_string(restored)?, "Dear Ann");
/// assert!(offsite::check(&access, &offsite::CheckOptions::default(), &Silent)?.damage.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the store cannot be opened or fails, or the run is cancelled. [`PushStopped`] has the snapshots that were sent
/// until then. A snapshot that cannot be read, and a file in one, is reported, counted and skipped.
pub fn push(
    repo: &Path,
    access: &Access,
    options: &PushOptions,
    monitor: &dyn Monitor,
) -> Result<PushStats, PushStopped> {
    let begun = Instant::now();
    let repository = Repository::open(repo)?;
    if let Some(path) = local(&access.url) {
        repository::check_outside(&repository, "push to", path)?;
    }
    repository.report_strays(monitor)?;
    let mut stats = PushStats::default();
    let selection = Selection::resolve(&repository, &options.ids, options.last)?;
    let (all, problems) = outgoing::snapshots(&repository, &selection, monitor)?;
    problems.iter().for_each(|error| problem(&mut stats, error, monitor));
    let store = Store::open(access, monitor)?;
    check_settings(&store)?;
    let unfinished = if options.dry_run { None } else { Some(Unfinished::begin(&store, monitor)?) };
    let found = Held::read(&store)?;
    stats.errors += found.report(&store, monitor);
    stats.is_damaged |= !found.damaged.is_empty();
    let mut held = found.all;
    let (mut known, lacking): (Vec<Outgoing>, Vec<Outgoing>) =
        all.into_iter().partition(|local| held.iter().any(|stored| is_whole(local, stored)));
    let (again, lacking): (Vec<Outgoing>, Vec<Outgoing>) =
        lacking.into_iter().partition(|local| options.ids.is_empty() && is_in(local, &held));
    again.iter().filter(|local| local.is_wanted).for_each(|local| incomplete(&mut stats, local, access, monitor));
    let wanted = lacking.into_iter().filter(|local| local.is_wanted);
    if options.dry_run {
        stats.snapshots.extend(wanted.map(|local| Pushed {
            files: files_of(&local.info),
            name: local.info.name,
            ..Pushed::default()
        }));
    } else {
        for wanted in wanted {
            if monitor.is_cancelled() {
                return Err(stopped(Error::interrupted(), stats, begun));
            }
            match one(&repository, &store, &wanted, (&known, &held), monitor) {
                Ok((pushed, Sent { file, problems, is_damaged })) => {
                    if is_damaged && let Err(error) = check_filesystem(&repository) {
                        return Err(stopped(error, stats, begun));
                    }
                    stats.errors += problems;
                    stats.is_damaged |= is_damaged;
                    stats.snapshots.push(pushed);
                    held.push(Stored::new(file));
                    known.push(wanted);
                }
                Err(Failure::Snapshot(_)) if !repository.has_snapshot(&wanted.info.name).unwrap_or(true) => {
                    monitor.event(Event::SnapshotNotSent(&wanted.info.name));
                }
                Err(Failure::Snapshot(error)) => problem(&mut stats, &error, monitor),
                Err(Failure::Store(error)) => return Err(stopped(error, stats, begun)),
            }
        }
    }
    if let Some(unfinished) = unfinished {
        unfinished.end();
    }
    Ok(PushStats { seconds: begun.elapsed().as_secs_f64(), ..stats })
}

/// A run that ended early. The snapshots before that are whole.
fn stopped(error: Error, stats: PushStats, begun: Instant) -> PushStopped {
    match stats.snapshots.is_empty() {
        true => error.into(),
        false => Stopped::after(error, PushStats { seconds: begun.elapsed().as_secs_f64(), ..stats }),
    }
}

fn problem(stats: &mut PushStats, error: &Error, monitor: &dyn Monitor) {
    stats.errors += 1;
    stats.is_incomplete = true;
    stats.is_damaged |= error.kind() == ErrorKind::Damage;
    monitor.problem(error);
}

/// Reports that the store lacks files of a snapshot.
fn incomplete(stats: &mut PushStats, local: &Outgoing, access: &Access, monitor: &dyn Monitor) {
    let error = Error::failed(format!("find all files of the snapshot {} in {}", local.info.name, access.url));
    let hint = "some could not be read when it was sent; name the snapshot to send it again";
    stats.errors += 1;
    monitor.problem(&error.hint(hint).with_code("incomplete"));
}

/// Sends one snapshot. `known`: those of the repository that the store has.
fn one(
    repository: &Repository,
    store: &Store,
    wanted: &Outgoing,
    (known, held): (&[Outgoing], &[Stored]),
    monitor: &dyn Monitor,
) -> Result<(Pushed, Sent), Failure> {
    let Outgoing { info, identity, .. } = wanted;
    let open = || -> Result<(Reader, Vec<String>)> {
        let reader = repository.manifest(&info.name)?;
        reader.check()?;
        Ok((reader, repository::marks(repository, &info.name, &info.header.tags)?.tags))
    };
    let (reader, tags) = open().map_err(Failure::Snapshot)?;
    let file = describe(&info.header, identity, &tags).map_err(Failure::Snapshot)?;
    let parent = parent(info, held);
    let unchanged = parent.filter(|parent| is_unchanged(repository, &reader, parent, known));
    let mut pushed = Pushed {
        name: info.name.clone(),
        parent: parent.map(|parent| parent.file.id.to_hex().to_string()),
        files: files_of(&wanted.info),
        ..Pushed::default()
    };
    let phase = format!("sending {}", info.name);
    let before = store.watch.written();
    let sent = match unchanged {
        Some(parent) => {
            monitor.phase(&phase, None);
            let file = again(store, file, info, parent).map_err(Failure::Store)?;
            Sent { file, problems: 0, is_damaged: false }
        }
        None => {
            let expected = Amount { files: pushed.files, bytes: info.totals.bytes };
            monitor.phase(&phase, Some(expected));
            let tree = repository.tree(&info.name).map_err(Failure::Snapshot)?;
            let tree = Arc::new(Tree::new(tree, store.counts.clone(), store.watch.clone()));
            let source = Source { reader: Arc::new(reader), tree: tree.clone(), created: info.header.created };
            let result = archive(store, &source, file, info, parent, monitor)?;
            pushed.read_bytes = tree.bytes();
            result
        }
    };
    pushed.files = Stored::new(sent.file.clone()).files().unwrap_or(pushed.files);
    pushed.id = sent.file.id.to_hex().to_string();
    pushed.stored_bytes = store.watch.written() - before;
    Ok((pushed, sent))
}

/// The snapshot in the store that the new one is compared with: the last one before it of the same machine and sources.
fn parent<'h>(info: &SnapshotInfo, held: &'h [Stored]) -> Option<&'h Stored> {
    let akin = || held.iter().filter(|stored| stored.is_akin(&info.header));
    let before = akin().filter(|stored| stored.created() <= info.header.created);
    before.max_by_key(|stored| stored.created()).or_else(|| akin().min_by_key(|stored| stored.created()))
}

/// Whether the snapshot in the store has the very tree.
fn is_unchanged(repository: &Repository, new: &Reader, parent: &Stored, known: &[Outgoing]) -> bool {
    let Some(old) = known.iter().find(|known| parent.is(&known.info.name, &known.identity)) else { return false };
    let is_whole = is_whole(old, parent) && parent.files().is_some();
    let same = || {
        let old = repository.manifest(&old.info.name)?;
        have_same_tree(&old, new)
    };
    // An older manifest that is damaged proves nothing.
    is_whole && same().unwrap_or(false)
}

/// Adds a snapshot with the tree of another one.
fn again(store: &Store, mut file: SnapshotFile, info: &SnapshotInfo, parent: &Stored) -> Result<SnapshotFile> {
    file.tree = parent.file.tree;
    file.parent = Some(parent.file.id);
    file.parents = vec![parent.file.id];
    file.paths = parent.file.paths.clone();
    if let Some(mut summary) = parent.file.summary.clone() {
        let (files, dirs) = (summary.total_files_processed, summary.total_dirs_processed);
        (summary.files_new, summary.files_changed, summary.files_unmodified) = (0, 0, files);
        (summary.dirs_new, summary.dirs_changed, summary.dirs_unmodified) = (0, 0, dirs);
        (summary.data_blobs, summary.tree_blobs) = (0, 0);
        (summary.data_added, summary.data_added_packed) = (0, 0);
        (summary.data_added_files, summary.data_added_files_packed) = (0, 0);
        (summary.data_added_trees, summary.data_added_trees_packed) = (0, 0);
        summary.backup_start = Timestamp::now().to_zoned(time_zone::local_or_utc());
        summary.backup_end = summary.backup_start.clone();
        (summary.backup_duration, summary.total_duration) = (0.0, 0.0);
        file.summary = Some(summary);
    }
    publish(store, file, info)
}
