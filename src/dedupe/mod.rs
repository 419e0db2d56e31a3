//! Deduplication: equal files share their extents afterwards, and the freed bytes are counted.
//!
//! [`dedupe`] is the verb. `stage` leads through the files, and the other modules are its steps, in this order:
//! `gather`, `candidates`, `survey`, `group`, `share`, `account`. Only FIDEDUPERANGE changes a file (`fs::fidedupe`):
//! the kernel compares under locks and shares equal data. `docs/dedupe.md` draws the whole.

pub(crate) mod account;
mod cache;
mod cache_file;
mod candidates;
pub(crate) mod catalogue;
mod chunk;
mod durable;
mod entry;
mod facts;
pub(crate) mod file;
mod filesystems;
#[cfg(feature = "testing")]
pub(crate) mod fuzz {
    pub(crate) use super::cache_file::fuzz::cache;
    pub(crate) use super::kept_blocks::fuzz::blocks;
}
mod gather;
mod group;
pub(crate) mod kept_blocks;
mod large_class;
mod options;
mod planned;
mod predict;
pub mod ranges;
pub(crate) mod run;
mod sample;
mod share;
pub(crate) mod skip;
mod stage;
pub(crate) mod stats;
mod survey;
mod whole_extents;
mod windows;
mod witness;

pub use crate::extents::bound::Bound;
pub use options::{CacheChoice, Options};
pub use skip::Skip;
pub use stats::{Ranges, Stats};

use crate::error::{Error, Result};
use crate::monitor::{Event, Monitor};
use account::Account;
use cache::Cache;
use cache_file::BlockIndex;
use candidates::Candidates;
use kept_blocks::store::Store;
use run::Run;
use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Shares equal data among the files below `paths`.
///
/// Each filesystem is handled separately. Memory: some 100 bytes a file, and a bounded amount for each thread.
///
/// Only the kernel's own comparison changes how data is shared, so content never changes:
///
/// ```
/// use pleach::dedupe::{Options, dedupe};
/// let dir = tempfile::tempdir()?;
/// for name in ["one", "other"] {
///     std::fs::write(dir.path().join(name), [7; 1 << 20])?;
/// }
///
/// let stats = dedupe(&[dir.path().into()], &Options::default(), &pleach::monitor::Silent)?;
/// // On a filesystem that cannot share extents, the files are skipped.
/// assert!(stats.duplicate_bytes == 1 << 20 || !stats.skipped.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If nothing could start because no path exists. Files that fail are reported to the monitor and counted.
pub fn dedupe(paths: &[PathBuf], options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let deadline = options.max_time.and_then(|time| begun.checked_add(time));
    let mut cache = cache(&options.cache, monitor)?;
    monitor.phase("finding files", None);
    let gathered = gather::gather(paths, cache.inode(), options, monitor)?;
    let catalogue = gathered.catalogue;
    cache.outlast(&catalogue);
    let candidates = Candidates::of(&catalogue);
    let several = several_filesystems(&catalogue);
    several.iter().for_each(|error| monitor.problem(error));
    let mut run = Run::new(&catalogue, options.dry_run, monitor)?;
    (run.deadline, run.threads) = (deadline, options.threads);
    if witness::check(&run, &candidates, &mut cache) {
        monitor.event(Event::CacheOutdated);
    }
    let mut blocks = cache.blocks();
    monitor.phase(if options.dry_run { "comparing" } else { "sharing" }, Some(candidates.amount()));
    stage::whole_files(&run, &candidates, &cache);
    let ranges = share_ranges(&run, &cache, &mut blocks, &options.ranges);
    if run.accounts().iter().any(Account::is_estimated) {
        monitor.event(Event::LengthsEstimated);
    }
    let mut stats = stats(&run, &candidates);
    stats.ranges = ranges;
    gathered.skipped.iter().for_each(|(reason, files)| *stats.skipped.entry(*reason).or_default() += files);
    stats.errors += gathered.errors + u64::from(several.is_some());
    drop(candidates);
    if !options.dry_run {
        gathered.disks.sync()?;
        cache.keep_sessions(catalogue.volumes());
        let mut write = |out: &mut dyn Write| blocks.write(out);
        let index = if blocks.is_changed() { BlockIndex::Written(&mut write) } else { BlockIndex::Unchanged };
        if let Err(error) = cache.save(index) {
            monitor.event(Event::CacheFailed(&error));
        }
    }
    stats.interrupted = monitor.is_cancelled();
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// The second stage. It is skipped if the cache remembers a run over the same, unchanged files. By default it is also
/// skipped if each file already shares all its data with others: snapshots of a tree are not read again.
fn share_ranges(run: &Run<'_>, cache: &Cache, blocks: &mut Store, options: &ranges::Options) -> Ranges {
    if options.mode == ranges::Mode::Never {
        return Ranges::Off;
    }
    let files = run.left(ranges::smallest(options));
    if files.is_empty() || run.is_over() || cache.knows_ranges(run, options) {
        return Ranges::Compared;
    }
    if options.mode == ranges::Mode::Auto && files.iter().all(|file| run.is_standing(*file)) {
        return Ranges::AllShared;
    }
    let mut earlier = ranges::Earlier { store: blocks, begun: cache.begun() };
    let is_done = ranges::share(run, &files, options, &mut earlier);
    if !run.dry_run {
        cache.keep_moved(run);
        if is_done {
            cache.keep_ranges(run, options);
        }
    }
    Ranges::Compared
}

/// The chosen cache. A file that the user has named must be a cache or absent. Without the default cache the run is
/// only slower.
fn cache(choice: &CacheChoice, monitor: &dyn Monitor) -> Result<Cache> {
    let opened = match choice {
        CacheChoice::None => return Ok(Cache::none()),
        CacheChoice::File(path) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            if parent.is_some_and(|parent| !parent.is_dir()) {
                // Probably a wrong name: nothing is made for it.
                return Err(Error::usage("keep the cache in").at(path).hint("its directory does not exist"));
            }
            Cache::open(path.clone())?
        }
        CacheChoice::Usual => match cache::default_path().map(Cache::open) {
            Some(Ok(opened)) => opened,
            Some(Err(error)) => {
                monitor.event(Event::CacheFailed(&error));
                return Ok(Cache::none());
            }
            None => {
                monitor.event(Event::CacheHomeless);
                return Ok(Cache::none());
            }
        },
    };
    let (cache, unusable) = opened;
    if let (Some(why), Some(path)) = (unusable, cache.path()) {
        monitor.event(Event::CacheReplaced { path, why: &why });
    }
    Ok(cache)
}

/// Files of two filesystems cannot share. This is reported as an error, so that nobody expects them to. The directories
/// above a path may be on yet another filesystem.
fn several_filesystems(catalogue: &catalogue::Catalogue) -> Option<Error> {
    let volumes: HashSet<_> = catalogue.ids().map(|file| catalogue.volume_number(file)).collect();
    let error = Error::failed(format!("share between {} filesystems", volumes.len()));
    let hint = "what is equal on one of them is shared there; name the paths of one at a time";
    (volumes.len() > 1).then(|| error.hint(hint))
}

fn stats(run: &Run<'_>, candidates: &Candidates) -> Stats {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &run.counters;
    Stats {
        files: candidates.inodes,
        bytes: candidates.bytes,
        read_bytes: get(&counters.read),
        duplicate_files: get(&counters.duplicate_files),
        duplicate_bytes: get(&counters.duplicate_bytes),
        range_bytes: get(&counters.ranges),
        already_shared_bytes: get(&counters.already_shared),
        submitted_bytes: get(&counters.submitted),
        freed_bytes: run.accounts().iter().map(Account::freed).sum(),
        freed_is: run.accounts().iter().fold(Bound::Exact, |bound, account| bound.and(account.freed_is())),
        pinned_bytes: run.accounts().iter().map(Account::pinned).sum(),
        ranges: Ranges::default(),
        rewritten_bytes: get(&counters.rewritten),
        skipped: run.skips.counts(),
        errors: run.skips.errors(),
        cache_hits: get(&counters.cache_hits),
        opened_files: run.opener.opened(),
        out_of_time: run.is_out_of_time(),
        interrupted: false,
        seconds: 0.0,
    }
}
