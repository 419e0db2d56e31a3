//! Space back: files that are equal share their extents afterwards, and the bytes that are freed by it are counted.
//!
//! [`dedupe`] is the verb; `stage` is its way through the files, and the other files here are its steps, in this order:
//! `gather`, `candidates`, `survey`, `group`, `share`, `account`. Only FIDEDUPERANGE touches a file (`submit`): the kernel compares,
//! under locks, and shares what is equal. `docs/dedupe.md` draws the whole.

pub mod account;
mod cache;
mod candidates;
pub mod catalogue;
mod entry;
mod facts;
pub mod file;
mod gather;
mod group;
pub mod map;
mod places;
mod predict;
pub mod ranges;
pub mod run;
mod sample;
mod share;
pub mod skip;
mod stage;
pub mod stats;
pub mod submit;
mod survey;

pub use stats::Stats;

use crate::error::{Error, Result};
use crate::exclude;
use crate::monitor::Monitor;
use cache::Cache;
use candidates::Candidates;
use run::Run;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What to leave out, and how to go about it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What is left out.
    pub excludes: exclude::Options,
    /// Where what was found is kept for the next run.
    pub cache: CacheChoice,
    /// Begin nothing after this time.
    pub max_time: Option<Duration>,
    /// Only find out what would be done.
    pub dry_run: bool,
    /// Ranges that are equal in files that are not.
    pub ranges: ranges::Options,
    /// How many threads work; by default what suits each step.
    pub threads: Option<usize>,
}

/// Where a run keeps what it found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheChoice {
    /// In the user's cache directory.
    #[default]
    Usual,
    /// In this file.
    File(PathBuf),
    /// Nowhere.
    None,
}

/// Lets the files below `paths` share what is equal.
///
/// Each filesystem is done by itself. Memory: some 200 bytes a file, and a bounded amount for each thread.
///
/// # Errors
/// If nothing could be begun: no path is there. Files that fail are told to the monitor and counted.
pub fn dedupe(paths: &[PathBuf], options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let deadline = options.max_time.and_then(|time| begun.checked_add(time));
    let cache = cache(&options.cache, monitor);
    monitor.phase("finding files", None);
    let gathered = gather::gather(paths, cache.inode(), options, monitor)?;
    let catalogue = gathered.catalogue;
    let candidates = Candidates::of(&catalogue);
    let several = several_filesystems(&catalogue);
    several.iter().for_each(|error| monitor.problem(error));
    let mut run = Run::new(&catalogue, monitor)?;
    (run.deadline, run.dry_run, run.threads) = (deadline, options.dry_run, options.threads);
    monitor.phase(if options.dry_run { "comparing" } else { "sharing" }, Some(candidates.amount()));
    stage::whole_files(&run, &candidates, &cache);
    share_ranges(&run, &cache, &options.ranges);
    if run.account.is_estimated() {
        monitor.notice("compressed extents are counted by the length of their data: only root is told what they take");
    }
    let mut stats = stats(&run, &candidates);
    stats.errors += gathered.errors + u64::from(several.is_some());
    drop(candidates);
    if !options.dry_run
        && let Err(error) = cache.save()
    {
        monitor.notice(&error.to_string());
    }
    stats.interrupted = monitor.is_cancelled();
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// The second stage, unless a run that the cache remembers went through these very files, as they are now. Nor, unless it
/// was asked for, when each of them shares all it has with others already: snapshots of a tree are not read again.
fn share_ranges(run: &Run<'_>, cache: &Cache, options: &ranges::Options) {
    let files = run.left(ranges::smallest(options));
    if files.is_empty() || run.is_over() || cache.knows_ranges(run, options) {
        return;
    }
    if options.mode == ranges::Mode::Auto && files.iter().all(|file| run.is_standing(*file)) {
        return run.monitor.detail(
            "Nothing was looked at block by block: all large files share all they have with others already. \
             `--ranges always` looks at them nevertheless.",
        );
    }
    if ranges::share(run, &files, options) && !run.dry_run {
        cache.keep_ranges(run, options);
    }
}

fn cache(choice: &CacheChoice, monitor: &dyn Monitor) -> Cache {
    let path = match choice {
        CacheChoice::None => return Cache::none(),
        CacheChoice::File(path) => Some(path.clone()),
        CacheChoice::Usual => cache::default_path(),
    };
    let Some(path) = path else {
        monitor.notice("nothing is kept for the next run: neither XDG_CACHE_HOME nor HOME is set");
        return Cache::none();
    };
    let (cache, word) = Cache::open(path);
    if let Some(word) = word {
        monitor.notice(&word);
    }
    cache
}

/// Files of two filesystems cannot share: told as something left out, lest someone waits for it.
fn several_filesystems(catalogue: &catalogue::Catalogue) -> Option<Error> {
    let several = catalogue.volumes().len();
    let error = Error::failed(format!("share between {several} filesystems"));
    (several > 1).then(|| error.hint("what is equal on one of them is shared there; name the paths of one at a time"))
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
        freed_bytes: run.account.freed(),
        pinned_bytes: run.account.pinned(),
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
