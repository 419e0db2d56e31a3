//! `pleach snapshot SOURCE... REPO`.

use super::outcome::{Ended, status};
use crate::error::{Advice, Result};
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, progress, snapshot};
use crate::snapshot::create::{self, Hash, Options, Stats, Unchanged};
use crate::tree::estimate::Scope;
use std::path::{Path, PathBuf};

/// The state of the disk after an interruption, in words.
pub(super) const INTERRUPTED: &str =
    "the sources and earlier snapshots are unchanged; the same command reuses the finished files";

pub(crate) fn run(args: &cli::Snapshot, globals: &Globals, output: &Output) -> Result<Ended> {
    let options = Options {
        name: args.name.clone(),
        tags: args.tags.clone(),
        excludes: super::excludes::options(&args.excludes)?,
        hash: match args.hash {
            cli::Hash::New => Hash::New,
            cli::Hash::None => Hash::None,
        },
        unchanged: match args.unchanged {
            cli::Unchanged::Clone => Unchanged::Clone,
            cli::Unchanged::Hardlink => Unchanged::Hardlink,
        },
        parent: args.parent.clone(),
        threads: globals.threads,
        freeze: args.freeze,
        subvolumes: create::Subvolumes::Auto,
        narrow_walks: args.full_walk.then_some(0),
        allow_empty: args.allow_empty,
        dry_run: args.dry_run,
    };
    let (sources, repo) = args.sources_and_repo();
    let taken = take(sources, repo, &options, args.require_sharing, output);
    let (_, status) = taken.map_err(|error| match error.advice() {
        Some(Advice::EmptyDirectory) => error.advise(Advice::NameRepositoryLast),
        _ => error,
    })?;
    Ok(Ended::Worked(status))
}

/// Takes the snapshot and prints its summary. `required`: the percentage of the data that must be shared.
pub(super) fn take(
    sources: &[PathBuf],
    repo: &Path,
    options: &Options,
    required: Option<f64>,
    output: &Output,
) -> Result<(Stats, ExitStatus)> {
    if options.dry_run {
        output.stop_if_unread();
    }
    let excludes = &options.excludes;
    let is_filtered = excludes.caches
        || excludes.larger_than.is_some()
        || excludes.older_than.is_some()
        || !(excludes.patterns.is_empty() && excludes.if_present.is_empty());
    // The number of entries that patterns exclude is not known in advance.
    let scope = Scope { paths: sources, one_file_system: excludes.one_file_system, skip: Some(repo), counts: true };
    let scope = Some(scope).filter(|_| !is_filtered);
    let stats = progress::watch_estimated(output, scope, |monitor| create::create(sources, repo, options, monitor))?;
    let falls_short = snapshot::show(output, &stats, repo, options, required);
    let status = match stats.is_volatile {
        // A run must not prune because of a snapshot that may not survive a power cut.
        true => ExitStatus::Failed,
        false => status(stats.errors + u64::from(falls_short)),
    };
    Ok((stats, status))
}
