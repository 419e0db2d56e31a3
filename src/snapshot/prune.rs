//! Removes snapshots that no rule keeps.
//!
//! `keep` has the rules, `policy` applies them, and `calendar` has the periods that they count. `steps` are the parts
//! that `remove` needs too, and `until` removes until enough space is free, as `enough` decides. `forecast` counts the
//! bytes that a removal would free, `space` those that it freed, and `stats` has the results.

pub(super) mod calendar;
mod enough;
pub(super) mod forecast;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod keep;
pub(super) mod policy;
mod space;
mod stats;
pub(super) mod steps;
mod until;

pub use crate::usage::Bound;
pub use calendar::Local;
pub use keep::{Free, Keep, Reason};
pub use stats::{Counted, Freed, Row, Stats, Stopped};

use super::manifest::Time;
use super::repository::{Marks, Repository, SnapshotInfo};
use crate::error::{Advice, Error, Result};
use crate::monitor::{Event, Monitor};
use crate::util::text;
use calendar::Calendar;
use policy::Candidate;
use space::Meter;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;
use steps::{Manner, Removal};

/// How to prune.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The rules.
    pub keep: Keep,
    /// Change nothing, and count from extents what would be freed.
    pub dry_run: bool,
    /// The time zone of hours, days, weeks, months and years, as `Europe/Berlin`. By default the local one, or UTC if
    /// the system has none.
    pub time_zone: Option<String>,
    /// Fail if the local time zone cannot be found, instead of using UTC.
    pub require_local_time: bool,
    /// Do not wait until the space of removed snapshots is free: only the space that is free by then is counted.
    /// Ignored with [`Keep::free`].
    pub no_wait: bool,
    /// How many threads delete; by default twice as many as there are processors.
    pub threads: Option<usize>,
}

impl Options {
    fn manner(&self) -> Manner {
        Manner { dry_run: self.dry_run, no_wait: self.no_wait, threads: self.threads }
    }
}

/// Removes the snapshots of the repository at `repo` that no rule keeps. Each group of snapshots, those of the same
/// machine and the same set of sources, is judged on its own, and the newest of each always stays.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, prune};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// for _ in 0..3 {
///     create::create(&[source.clone()], &repo, &create::Options::default(), &Silent)?;
/// }
///
/// let mut options = prune::Options::default();
/// options.keep.last = 2;
/// let stats = prune::prune(&repo, &options, &Silent)?;
/// assert_eq!((stats.kept, stats.removed), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If there is no rule, or the repository cannot be opened or is locked, or the run is cancelled. [`Stopped`] has what
/// had become of the snapshots by then. A snapshot that cannot be removed is reported to the monitor and kept.
pub fn prune(repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats, Stopped> {
    let begun = Instant::now();
    if options.keep.is_empty() {
        return Err(Error::usage("prune without a rule").advise(Advice::GiveRule).into());
    }
    let calendar = Calendar::new(options.time_zone.as_deref(), options.require_local_time)?;
    let repository = Repository::open(repo)?;
    let mut removal = Removal::begin(&repository, options.manner(), monitor)?;
    let mut rows = judged(&repository, options, &calendar, &mut removal)?;
    // The oldest go first.
    rows.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let going: Vec<String> = rows.iter().filter(|row| row.reasons.is_empty()).map(|row| row.name.clone()).collect();
    let removed = match options.keep.free.filter(|free| !free.is_none()) {
        None => removal.remove(&going),
        Some(free) => removal.remove_until(&going, free),
    };
    removal.finish(rows, removed, begun)
}

/// All snapshots, with the reasons to keep them.
fn judged(
    repository: &Repository,
    options: &Options,
    calendar: &Calendar,
    removal: &mut Removal<'_>,
) -> Result<Vec<Row>> {
    let listing = repository.listing()?;
    listing.problems.iter().for_each(|problem| removal.problem(problem));
    repository.report_strays(removal.monitor())?;
    let now = Time::now();
    let damaged = damaged(repository, &listing.snapshots, now, removal);
    let is_sound = |name: &str| !damaged.contains(name) && !removal.deleted.contains(name);
    let snapshots: Vec<_> = listing.snapshots.iter().filter(|info| is_sound(&info.name)).collect();
    let kept = |name: &str| Row { name: name.into(), created: None, kept: true, reasons: vec![Reason::Damaged] };
    let unlisted = listing.unlisted.iter().map(String::as_str);
    let mut rows: Vec<Row> = unlisted.chain(damaged.iter().copied()).map(kept).collect();
    let mut groups = BTreeMap::new();
    let mut candidates = Vec::new();
    for info in snapshots {
        let next = groups.len();
        let group = *groups.entry(group(info)).or_insert(next);
        let Marks { tags, pinned } = removal.marks(info);
        let (name, created, is_complete) = (info.name.clone(), info.header.created, is_complete(info));
        candidates.push(Candidate { name, created, is_complete, group, tags, pinned });
    }
    let ahead = || candidates.iter().filter(|candidate| candidate.created > now);
    if let Some(latest) = ahead().max_by_key(|candidate| candidate.created) {
        let created = text::rfc3339(latest.created.seconds, latest.created.nanos);
        let snapshots = ahead().count() as u64;
        removal.event(Event::DatedAhead { snapshots, latest: &latest.name, created: &created });
    }
    let reasons = policy::reasons(&candidates, &options.keep, now, calendar);
    rows.extend(candidates.into_iter().zip(reasons).map(|(candidate, reasons)| Row {
        name: candidate.name,
        created: Some(candidate.created),
        kept: true,
        reasons,
    }));
    Ok(rows)
}

/// The snapshots with damaged manifests among the newest of each group, complete or not: the older ones may only go if
/// these can be restored. `snapshots` are in the order of their times.
fn damaged<'a>(
    repository: &Repository,
    snapshots: &'a [SnapshotInfo],
    now: Time,
    removal: &mut Removal<'_>,
) -> BTreeSet<&'a str> {
    let mut damaged = BTreeSet::new();
    let mut found = BTreeSet::new();
    for info in snapshots.iter().rev().filter(|info| info.header.created <= now) {
        let kinds = [false, true].into_iter().filter(|must_be_complete| is_complete(info) || !must_be_complete);
        let kinds = kinds.map(|must_be_complete| (group(info), must_be_complete));
        let wanted: Vec<_> = kinds.filter(|kind| !found.contains(kind)).collect();
        if wanted.is_empty() {
            continue;
        }
        match repository.manifest(&info.name).and_then(|manifest| manifest.check()) {
            Ok(()) => found.extend(wanted),
            Err(error) if error.is_not_found() => removal.was_deleted(&info.name),
            Err(error) => {
                removal.problem(&error);
                damaged.insert(info.name.as_str());
            }
        }
    }
    damaged
}

/// Whether nothing was skipped when it was made.
fn is_complete(info: &SnapshotInfo) -> bool {
    info.totals.errors == 0
}

/// The machine and the set of sources.
fn group(info: &SnapshotInfo) -> (&str, BTreeSet<&Path>) {
    (&info.header.host, info.sources().collect())
}
