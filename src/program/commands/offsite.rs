//! `pleach offsite init|push|list|restore|check|prune --to URL`.

use super::outcome::{Ended, UNCHANGED, counted, state, status, status_of};
use super::time_zone::names_time_zone;
use crate::error::{Error, Result};
use crate::program::cli::{self, Globals, Store, Verb};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, offsite as show, progress};
use crate::snapshot::offsite::{self, Access, PruneOptions, PushOptions, RestoreOptions, Secrets, Url};
use crate::util::pool;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::Instant;

/// The state of the store after an interrupted push, in words.
const PUSH_INTERRUPTED: &str = "snapshots already sent are complete; run the same command to continue";
/// The state of the target after an interrupted restore.
const RESTORE_INTERRUPTED: &str = "files may be incomplete; run the same command to continue";
/// The state of the store after an interrupted prune.
const PRUNE_INTERRUPTED: &str = "the next run continues";

pub(crate) fn run(args: &cli::Offsite, globals: &Globals, output: &Output) -> Result<Ended> {
    if let Some(threads) = globals.threads {
        limit_threads(threads);
    }
    // The library panics if it cannot start them.
    pool::start_global().map_err(|_| Error::failed("start the threads that work for the store"))?;
    match &args.verb {
        Verb::Init(args) => init(args, output),
        Verb::Push(args) => push(args, output),
        Verb::List(args) => list(args, output),
        Verb::Restore(args) => restore(args, output),
        Verb::Check(args) => check(args, output),
        Verb::Prune(args) => prune(args, output),
    }
}

/// Limits the threads that do the work. The library starts one for each processor and has no option for it, so this
/// thread, and all that it starts, use only this many processors.
fn limit_threads(threads: usize) {
    let Ok(all) = sched_getaffinity(None) else { return };
    let mut some = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor)).take(threads).for_each(|number| some.set(number));
    // Without the limit, the result is the same.
    let _ = sched_setaffinity(None, &some);
}

/// The state of the store or the target after an interruption, in words.
pub(super) fn interrupted(args: &cli::Offsite) -> Option<&'static str> {
    match &args.verb {
        Verb::Init(_) => None,
        Verb::Push(_) => Some(PUSH_INTERRUPTED),
        Verb::List(_) | Verb::Check(_) => Some(UNCHANGED),
        Verb::Restore(_) => Some(RESTORE_INTERRUPTED),
        Verb::Prune(_) => Some(PRUNE_INTERRUPTED),
    }
}

fn access(store: &Store) -> Result<Access> {
    let Store { to, password_file, credentials_file, no_cache } = store;
    let secrets = Secrets { password_file: password_file.clone(), credentials_file: credentials_file.clone() };
    Ok(Access { no_cache: *no_cache, ..Access::new(Url::parse(to)?, secrets) })
}

fn init(args: &cli::OffsiteInit, output: &Output) -> Result<Ended> {
    let begun = Instant::now();
    let access = access(&args.store)?;
    progress::unseen(output, |monitor| offsite::init(&access, monitor))?;
    show::made(output, &access.url, begun.elapsed().as_secs_f64());
    Ok(Ended::Worked(ExitStatus::Done))
}

fn push(args: &cli::OffsitePush, output: &Output) -> Result<Ended> {
    let access = access(&args.store)?;
    let options = PushOptions { ids: args.ids.clone(), last: args.last, dry_run: args.dry_run };
    let result = progress::watch(output, |monitor| offsite::push(&args.repo, &access, &options, monitor));
    let state = state(PUSH_INTERRUPTED, args.dry_run);
    let (stats, error) = counted(result, |stats| &mut stats.errors, state, output)?;
    show::pushed(output, &stats, &access.url, args.dry_run, error.as_ref());
    let status = match error {
        None if stats.is_damaged => ExitStatus::Damage,
        // The store lacks a snapshot that it should have.
        None if stats.is_incomplete => ExitStatus::Failed,
        _ => status_of(error.as_ref(), stats.errors),
    };
    Ok(Ended::Worked(status))
}

fn list(args: &cli::OffsiteList, output: &Output) -> Result<Ended> {
    let begun = Instant::now();
    let access = access(&args.store)?;
    let stats = progress::unseen(output, |monitor| offsite::list(&access, monitor))?;
    show::listed(output, &stats, &access.url, begun.elapsed().as_secs_f64());
    Ok(Ended::Listed(if stats.errors > 0 { ExitStatus::Damage } else { ExitStatus::Done }))
}

fn restore(args: &cli::OffsiteRestore, output: &Output) -> Result<Ended> {
    let access = access(&args.store)?;
    let options = RestoreOptions {
        id: args.id.clone(),
        paths: args.paths.clone(),
        verify: args.verify,
        dry_run: args.dry_run,
        ..RestoreOptions::new(args.target.clone())
    };
    let stats = progress::watch(output, |monitor| offsite::restore(&access, &options, monitor))?;
    show::restored(output, &stats, &args.target, args.dry_run);
    let status = if stats.is_damaged { ExitStatus::Damage } else { status(stats.errors) };
    Ok(Ended::Worked(status))
}

fn check(args: &cli::OffsiteCheck, output: &Output) -> Result<Ended> {
    let access = access(&args.store)?;
    let options = offsite::CheckOptions { read_data: args.read_data };
    let stats = progress::watch(output, |monitor| offsite::check(&access, &options, monitor))?;
    show::checked(output, &stats, &access.url, args.read_data);
    let status = if stats.damage.is_empty() { ExitStatus::Done } else { ExitStatus::Damage };
    Ok(Ended::Worked(status))
}

fn prune(args: &cli::OffsitePrune, output: &Output) -> Result<Ended> {
    let access = access(&args.store)?;
    let options = PruneOptions {
        keep: args.keep.keep(),
        dry_run: args.dry_run,
        now: args.now,
        require_local_time: names_time_zone(),
        ..PruneOptions::default()
    };
    if options.keep.is_empty() {
        let hint = "give at least one, as --keep-daily 7";
        return Err(Error::usage("prune the store without a rule").hint(hint));
    }
    let result = progress::watch(output, |monitor| offsite::prune(&access, &options, monitor));
    let state = state(PRUNE_INTERRUPTED, args.dry_run);
    let (stats, error) = counted(result, |stats| &mut stats.errors, state, output)?;
    show::pruned(output, &stats, &access.url, args.dry_run, error.as_ref());
    let status = status_of(error.as_ref(), stats.errors);
    Ok(Ended::Worked(status))
}
