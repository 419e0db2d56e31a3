//! Adopts the backups that another program kept: each becomes a snapshot of the time when it was made.
//!
//! On the repository's filesystem no data is copied: files are cloned, and a file that several backups share by a hard
//! link is read once and shared by their snapshots. The backups themselves stay; whoever has verified the snapshots may
//! delete them. A killed run loses nothing, and the next one continues with the first backup that is missing.

mod layout;

pub use layout::Layout;

use super::create::{self, Past as Backup, Unchanged, create_past, end_past};
use super::manifest::Meta;
use super::prune::calendar::Calendar;
use super::repository::Repository;
use super::{Time, source_path};
use crate::error::{Error, Result};
use crate::fs::status::Status;
use crate::monitor::{Event, Monitor};
use crate::tree::exclude;
use crate::util::text;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How to adopt.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The program that made the backups.
    pub layout: Layout,
    /// The part of each backup that is adopted; by default all of it.
    pub subdir: Option<PathBuf>,
    /// The absolute path that this part is a copy of; by default as the layout says.
    pub source: Option<PathBuf>,
    /// The time of the only backup, in seconds since 1970; by default as its name says, or its directory's mtime.
    pub time: Option<i64>,
    /// Fail without a known local time zone, instead of taking times in names as UTC.
    pub require_local_time: bool,
    /// Tags of the snapshots.
    pub tags: Vec<String>,
    /// Whether a file that backups share by a hard link becomes a clone in each snapshot.
    pub clone_links: bool,
    /// The number of threads; by default it depends on the work and the number of cores.
    pub threads: Option<usize>,
    /// Change nothing, and return what would be adopted.
    pub dry_run: bool,
}

/// A backup, and what became of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// The tree that another program kept.
    pub tree: PathBuf,
    /// The path that it is recorded under.
    pub source: PathBuf,
    /// When it was made.
    pub created: Time,
    /// The snapshot of it. `None` in a dry run, or if it could not be adopted.
    pub name: Option<String>,
    /// Whether an earlier run had adopted it.
    pub known: bool,
    /// What its snapshot took.
    pub stats: Option<create::Stats>,
}

/// The result of [`adopt`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The backups, oldest first.
    pub rows: Vec<Row>,
    /// How many snapshots were made, or would be.
    pub adopted: u64,
    /// How many an earlier run had made.
    pub known: u64,
    /// Problems that were reported.
    pub errors: u64,
    /// The time that the run took.
    pub seconds: f64,
}

/// A run that ended early.
pub type Stopped = crate::error::Stopped<Stats>;

/// Adopts the backups in these directories into the repository at `repo`, which is created if it is missing.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::adopt::{Options, adopt};
/// let dir = tempfile::tempdir()?;
/// let (backup, repo) = (dir.path().join("2026-11-20"), dir.path().join("repo"));
/// std::fs::create_dir(&backup)?;
/// std::fs::write(backup.join("letter"), "Dear Ann")?;
///
/// let stats = adopt(&[backup], &repo, &Options::default(), &Silent)?;
/// assert_eq!((stats.adopted, stats.errors), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a directory has no backups, no backup has the wanted part, an option does not fit, or the repository cannot be
/// used. A backup that lacks this part is reported and skipped. One that cannot be adopted ends the run, and so does a
/// snapshot that may not survive a power cut. The backups before it are snapshots by then, and [`Stopped`] has them.
pub fn adopt(dirs: &[PathBuf], repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats, Stopped> {
    let begun = Instant::now();
    Calendar::new(None, options.require_local_time && options.time.is_none())?;
    let mut stats = Stats::default();
    let mut backups = Vec::new();
    for dir in dirs {
        let dir = std::path::absolute(dir).map_err(|cause| Error::io("find", dir, cause))?;
        let found = layout::find(&dir, options.layout)?;
        for error in found.incomplete {
            monitor.problem(&error);
            stats.errors += 1;
        }
        backups.extend(found.backups);
    }
    let mut backups = with_tree(backups, options, &mut stats, monitor)?;
    if let Some(seconds) = options.time {
        let [backup] = &mut backups[..] else {
            return Err(Error::usage("give one time to several backups").hint("adopt them one by one").into());
        };
        backup.created = Time { seconds, nanos: 0 };
    }
    let now = Time::now();
    backups.retain(|backup| {
        let is_past = backup.created.is_in_calendar() && backup.created <= now;
        if !is_past {
            let when = text::rfc3339(backup.created.seconds, 0);
            let error = Error::failed("adopt the backup").at(backup.tree());
            monitor.problem(&error.hint(format!("{when} is not between 1970 and now; give the correct time")));
            stats.errors += 1;
        }
        is_past
    });
    backups.sort_by_key(|backup| (backup.created, backup.tree()));
    if !options.dry_run {
        // A killed run may have left one that is not complete. What an earlier run could not sync is synced now.
        Repository::open_or_make(repo, monitor)?.sync()?;
    }
    let result = one_by_one(backups, repo, options, &mut stats, monitor);
    stats.seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(stats),
        Err(error) if stats.rows.is_empty() => Err(error.into()),
        Err(error) => Err(Stopped::after(error, stats)),
    }
}

fn one_by_one(
    backups: Vec<Backup>,
    repo: &Path,
    options: &Options,
    stats: &mut Stats,
    monitor: &dyn Monitor,
) -> Result<()> {
    let mut last: Option<String> = None;
    let once = Once { monitor, has_no_reflinks: AtomicBool::new(false) };
    for backup in backups {
        let known = known(repo, &backup)?;
        let mut row = Row {
            tree: backup.tree(),
            source: backup.source.clone(),
            created: backup.created,
            known: known.is_some(),
            name: known,
            stats: None,
        };
        let mut is_volatile = false;
        if row.known {
            stats.known += 1;
        } else {
            if !options.dry_run {
                let taken = create_past(&backup, repo, &of_snapshot(options, last.clone()), &once)?;
                stats.errors += taken.errors;
                is_volatile = taken.is_volatile;
                row.name = Some(taken.name.clone());
                row.stats = Some(taken);
            }
            stats.adopted += 1;
        }
        last = row.name.clone().or(last);
        stats.rows.push(row);
        if is_volatile {
            let hint = "the last snapshot may not survive a power cut; run the same command again";
            return Err(Error::failed("adopt more backups into").at(repo).hint(hint));
        }
    }
    if stats.adopted == 0 && !options.dry_run {
        stats.errors += end_past(repo, &of_snapshot(options, None), monitor)?;
    }
    Ok(())
}

/// Reports events about the repository once, and not for each backup.
struct Once<'a> {
    monitor: &'a dyn Monitor,
    has_no_reflinks: AtomicBool,
}

impl Monitor for Once<'_> {
    fn inner(&self) -> Option<&dyn Monitor> {
        Some(self.monitor)
    }

    fn event(&self, event: Event<'_>) {
        let is_known = matches!(event, Event::NoReflinks { .. }) && self.has_no_reflinks.swap(true, Ordering::Relaxed);
        if !is_known {
            self.monitor.event(event);
        }
    }
}

/// The wanted parts of the backups. A backup without this part is reported and skipped, unless none has it.
fn with_tree(backups: Vec<Backup>, options: &Options, stats: &mut Stats, monitor: &dyn Monitor) -> Result<Vec<Backup>> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for backup in backups {
        let backup = chosen(backup, options)?;
        match backup.open() {
            Ok(_) => found.push(backup),
            Err(error) => missing.push(error),
        }
    }
    if found.is_empty()
        && let Some(error) = missing.pop()
    {
        return Err(error);
    }
    missing.iter().for_each(|error| monitor.problem(error));
    stats.errors += missing.len() as u64;
    Ok(found)
}

/// The wanted part of a backup, and the path that it is recorded under.
fn chosen(mut backup: Backup, options: &Options) -> Result<Backup> {
    if let Some(subdir) = &options.subdir {
        let is_plain = subdir.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || subdir.as_os_str().is_empty() {
            let error = Error::usage("adopt a part of backups by the path").at(subdir);
            return Err(error.hint("it must be relative, without '..'"));
        }
        backup.part.push(subdir);
        backup.source.push(subdir);
    }
    if let Some(path) = &options.source {
        backup.source = Path::new("/").join(OsString::from_vec(source_path::normal("record", path)?));
    }
    Ok(backup)
}

/// The snapshot of a backup that an earlier run adopted. It has the same time and source, and its record of the tree's
/// own directory is that of the tree: another backup of the same minute is not taken for it.
fn known(repo: &Path, backup: &Backup) -> Result<Option<String>> {
    if !repo.exists() {
        return Ok(None);
    }
    let status = Status::of(backup.open()?).map_err(|errno| Error::io("read the status of", backup.tree(), errno))?;
    let repository = Repository::open(repo)?;
    for info in repository.listing()?.snapshots {
        let header = &info.header;
        if header.created != backup.created || header.sources.len() != 1 || !info.has_source(&backup.source) {
            continue;
        }
        let manifest = repository.manifest(&info.name)?;
        let path = source_path::normal("find", &backup.source)?;
        let recorded = manifest.directory(&path)?.map(|cursor| cursor.directory().meta.clone());
        let is_it = |meta: &Meta| meta.ino == status.ino && meta.mtime == status.mtime;
        if recorded.as_ref().is_some_and(is_it) {
            return Ok(Some(info.name));
        }
    }
    Ok(None)
}

fn of_snapshot(options: &Options, parent: Option<String>) -> create::Options {
    // Other filesystems that are mounted in a backup by now are not part of it.
    let excludes = exclude::Options { one_file_system: true, ..exclude::Options::default() };
    create::Options {
        tags: options.tags.clone(),
        parent,
        excludes,
        unchanged: if options.clone_links { Unchanged::Clone } else { Unchanged::Hardlink },
        threads: options.threads,
        allow_empty: true,
        ..create::Options::default()
    }
}
