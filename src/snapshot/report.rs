//! Collects what there is to know about a repository: its snapshots, what each added and what removing it would free,
//! what changed most, how the largest files share their data, and the problems of the last runs.
//!
//! It takes no lock, writes nothing but maps of snapshots, and works on a read-only mount. `snapshots` lists, measures
//! and groups the snapshots, `changes` compares them (`growth` measures the new data of one file, `top` keeps the
//! largest), `files` finds the largest files and the extents of their versions. `stats` has the results, `work` the
//! common parts. A part that fails is reported, and the others are collected nevertheless.

mod changes;
mod files;
mod growth;
mod options;
mod snapshots;
mod stats;
mod top;
mod work;

pub use options::Options;
pub use stats::{Changes, Group, LargeFile, PathChange, Pruning, Row, Space, Stats, Version};

pub use super::prune::Local;
pub use super::repository::{Problems, Verification};
pub use crate::monitor::Note;

use super::manifest::Time;
use super::prune::calendar::Calendar;
use super::recording_monitor::{Notes, Noting};
use super::repository::{self, Repository};
use crate::error::Result;
use crate::fs::procfs;
use crate::monitor::Monitor;
use std::path::Path;
use std::time::Instant;
use work::Work;

/// Collects a report on the repository at `repo`.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, report};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source], &repo, &create::Options::default(), &Silent)?;
///
/// let report = report::report(&repo, &report::Options::default(), &Silent)?;
/// assert_eq!((report.snapshots.len(), report.snapshots[0].files), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Memory: that of [`du`](super::du::du), and some dozens of MiB for the comparisons and the extents of large files,
/// whatever the size of the repository.
///
/// # Errors
/// If the repository cannot be opened, or the run is cancelled. Any other failure is reported to the monitor once, and
/// counted.
pub fn report(repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    procfs::require()?;
    let calendar = Calendar::new(options.time_zone.as_deref(), options.require_local_time)?;
    let repository = Repository::open(repo)?;
    let noting = Noting::once(monitor);
    let work = Work { repo, repository: &repository, options, calendar: &calendar, monitor: &noting };
    let now = Time::now();
    let verification = repository::verification(&repository);
    let mut stats = Stats {
        path: repo.to_path_buf(),
        created: now,
        local: calendar.local(now),
        time_zone: calendar.name(),
        space: repository::space(repository.fd()).map(Space::from),
        verified: verification.as_ref().map(|verification| calendar.local(verification.ended)),
        verification,
        ..Stats::default()
    };
    snapshots::list(&work, &mut stats)?;
    // These look whether somebody reads a snapshot, so they precede everything that reads one here.
    snapshots::measure(&work, &mut stats)?;
    changes::compare(&work, &mut stats)?;
    files::largest(&work, &mut stats)?;
    let Notes { problems, count, .. } = noting.finish();
    stats.problems = problems;
    stats.errors = count;
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}
