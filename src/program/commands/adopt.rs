//! `pleach adopt DIR... REPO`.

use super::outcome::{Ended, counted, state, status_of};
use super::time_zone::names_time_zone;
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::output::{Output, adopt as show, progress};
use crate::snapshot::adopt::{Layout, Options, adopt};

/// The state of the disk after an interruption, in words.
pub(super) const INTERRUPTED: &str = "the backups are unchanged; the same command continues";

pub(crate) fn run(args: &cli::Adopt, globals: &Globals, output: &Output) -> Result<Ended> {
    let options = Options {
        layout: match args.layout {
            cli::Layout::Auto => Layout::Auto,
            cli::Layout::Rsync => Layout::Rsync,
            cli::Layout::Rsnapshot => Layout::Rsnapshot,
            cli::Layout::Timeshift => Layout::Timeshift,
            cli::Layout::BackInTime => Layout::BackInTime,
        },
        subdir: args.subdir.clone(),
        source: args.source.clone(),
        time: args.time,
        require_local_time: names_time_zone(),
        tags: args.tags.clone(),
        clone_links: args.clone_links,
        threads: globals.threads,
        dry_run: args.dry_run,
    };
    let (dirs, repo) = args.dirs_and_repo();
    let result = progress::watch(output, |monitor| adopt(dirs, repo, &options, monitor));
    let state = state(INTERRUPTED, args.dry_run);
    let (stats, error) = counted(result, |stats| &mut stats.errors, state, output)?;
    show::show(output, &stats, args.dry_run, error.as_ref());
    let status = status_of(error.as_ref(), stats.errors);
    Ok(Ended::Worked(status))
}
