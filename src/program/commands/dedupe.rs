//! `pleach dedupe PATH...`.

use super::outcome::{Ended, status};
use crate::dedupe::{CacheChoice, Options, Stats, dedupe, ranges};
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, dedupe as show, progress};
use crate::tree::estimate::Scope;
use crate::tree::exclude::{self, Line, Patterns};
use std::path::PathBuf;

/// The state of the disk after an interruption, in words.
pub(super) const INTERRUPTED: &str = "no content was changed; the next run continues";

pub(crate) fn run(args: &cli::Dedupe, globals: &Globals, output: &Output) -> Result<Ended> {
    let options = Options {
        excludes: exclude::Options {
            patterns: Patterns::new(args.excludes.iter().map(|text| Line::from(text.as_str())))?,
            one_file_system: args.one_file_system,
            ..exclude::Options::default()
        },
        cache: match &args.cache {
            Some(path) => CacheChoice::File(path.clone()),
            None if args.no_cache => CacheChoice::None,
            None => CacheChoice::Usual,
        },
        max_time: args.max_time,
        dry_run: args.dry_run,
        ranges: ranges::Options {
            mode: match args.ranges {
                cli::Ranges::Auto => ranges::Mode::Auto,
                cli::Ranges::Always => ranges::Mode::Always,
                cli::Ranges::Never => ranges::Mode::Never,
            },
            min_run: args.min_run,
            index_memory: args.index_memory,
        },
        threads: globals.threads,
    };
    let (_, status) = share(&args.paths, &options, output)?;
    Ok(Ended::Worked(status))
}

/// Shares equal data and prints the summary.
pub(super) fn share(paths: &[PathBuf], options: &Options, output: &Output) -> Result<(Stats, ExitStatus)> {
    if options.dry_run {
        output.stop_if_unread();
    }
    let excludes = &options.excludes;
    let scope = Scope { paths, one_file_system: excludes.one_file_system, skip: None, counts: false };
    let scope = Some(scope).filter(|_| excludes.patterns.is_empty());
    let stats = progress::watch_estimated(output, scope, |monitor| dedupe(paths, options, monitor))?;
    show::show(output, &stats, options);
    let status = if output.is_interrupted() { ExitStatus::Interrupted } else { status(stats.errors) };
    Ok((stats, status))
}
