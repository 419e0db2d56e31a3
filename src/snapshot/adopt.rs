//! Adopts the nights that another program kept: each becomes a snapshot of the time when it was made.
//!
//! On the repository's filesystem no data is copied: files are cloned, and a file that several nights share by a hard
//! link is read once and shared by their snapshots. The nights themselves stay; whoever has verified the snapshots may
//! delete them. A killed run loses nothing, and the next one continues with the first night that is missing.

mod layout;

pub use layout::Layout;

use super::create::{self, Past, Unchanged, create_past};
use super::repository::Repository;
use super::{Time, source_path};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use layout::Night;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How to adopt.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The program that made the nights.
    pub layout: Layout,
    /// The part of each night that is adopted; by default all of it.
    pub subdir: Option<PathBuf>,
    /// The absolute path that this part is a copy of; by default as the layout says.
    pub source: Option<PathBuf>,
    /// The time of the only night, in seconds since 1970; by default as its name says, or its directory's mtime.
    pub time: Option<i64>,
    /// Tags of the snapshots.
    pub tags: Vec<String>,
    /// Whether a file that nights share by a hard link becomes a clone in each snapshot.
    pub clone_links: bool,
    /// The number of threads; by default it depends on the work and the number of cores.
    pub threads: Option<usize>,
    /// Change nothing, and return what would be adopted.
    pub dry_run: bool,
}

/// A night, and what became of it.
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
    /// The nights, oldest first.
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

/// Adopts the nights in these directories into the repository at `repo`, which is created if it is missing.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::adopt::{Options, adopt};
/// let dir = tempfile::tempdir()?;
/// let (night, repo) = (dir.path().join("2026-11-20"), dir.path().join("repo"));
/// std::fs::create_dir(&night)?;
/// std::fs::write(night.join("letter"), "Dear Ann")?;
///
/// let stats = adopt(&[night], &repo, &Options::default(), &Silent)?;
/// assert_eq!((stats.adopted, stats.errors), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a directory has no nights, an option does not fit, or the repository cannot be used. A night that cannot be
/// adopted ends the run; those before it are snapshots by then.
pub fn adopt(dirs: &[PathBuf], repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let mut stats = Stats::default();
    let mut nights = Vec::new();
    for dir in dirs {
        let dir = std::path::absolute(dir).map_err(|cause| Error::io("find", dir, cause))?;
        let found = layout::find(&dir, options.layout)?;
        for error in found.incomplete {
            monitor.problem(&error);
            stats.errors += 1;
        }
        nights.extend(found.nights);
    }
    nights = nights.into_iter().map(|night| chosen(night, options)).collect::<Result<_>>()?;
    if let Some(seconds) = options.time {
        let [night] = &mut nights[..] else {
            return Err(Error::usage("give one time to several nights").hint("adopt them one by one"));
        };
        night.created = Time { seconds, nanos: 0 };
    }
    nights.sort_by(|a, b| (a.created, &a.tree).cmp(&(b.created, &b.tree)));
    if !options.dry_run {
        // A killed run may have left one that is not complete.
        Repository::open_or_create(repo)?;
    }
    let mut last: Option<String> = None;
    for night in nights {
        let known = known(repo, &night)?;
        let mut row = Row {
            tree: night.tree.clone(),
            source: night.source.clone(),
            created: night.created,
            known: known.is_some(),
            name: known,
            stats: None,
        };
        if row.known {
            stats.known += 1;
        } else {
            if !options.dry_run {
                let taken = create_past(&past(&night), repo, &of_snapshot(options, last.clone()), monitor)?;
                stats.errors += taken.errors;
                row.name = Some(taken.name.clone());
                row.stats = Some(taken);
            }
            stats.adopted += 1;
        }
        last = row.name.clone().or(last);
        stats.rows.push(row);
    }
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// The wanted part of a night, and the path that it is recorded under.
fn chosen(night: Night, options: &Options) -> Result<Night> {
    let Night { mut tree, mut source, created } = night;
    if let Some(subdir) = &options.subdir {
        let is_plain = subdir.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_plain || subdir.as_os_str().is_empty() {
            return Err(
                Error::usage("adopt a part of nights by a path that is not relative, or goes through '..':").at(subdir)
            );
        }
        tree.push(subdir);
        source.push(subdir);
        if !std::fs::symlink_metadata(&tree).is_ok_and(|status| status.is_dir()) {
            return Err(Error::failed("adopt the directory").at(&tree).hint("this night does not have it"));
        }
    }
    if let Some(path) = &options.source {
        let normal = source_path::normal("record", path)?;
        use std::os::unix::ffi::OsStringExt as _;
        source = Path::new("/").join(std::ffi::OsString::from_vec(normal));
    }
    Ok(Night { tree, source, created })
}

/// The snapshot of a night that an earlier run adopted: it has the same time and source.
fn known(repo: &Path, night: &Night) -> Result<Option<String>> {
    if !repo.exists() {
        return Ok(None);
    }
    let listing = Repository::open(repo)?.listing()?;
    let is_it = |info: &&super::repository::SnapshotInfo| {
        info.header.created == night.created && info.header.sources.len() == 1 && info.has_source(&night.source)
    };
    Ok(listing.snapshots.iter().find(is_it).map(|info| info.name.clone()))
}

fn past(night: &Night) -> Past {
    Past { tree: night.tree.clone(), source: night.source.clone(), created: night.created }
}

fn of_snapshot(options: &Options, parent: Option<String>) -> create::Options {
    let mut excludes = crate::tree::exclude::Options::default();
    // What is mounted in a night by now is no part of it.
    excludes.one_file_system = true;
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
