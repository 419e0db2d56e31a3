//! `pleach restore REPO ID [PATH...] --target DIR`.

use super::id::as_id;
use super::outcome::{Ended, is_unread, status};
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, progress, restore};
use crate::snapshot::restore::{Options, Overwrite, restore};

pub(crate) fn run(args: &cli::Restore, globals: &Globals, output: &Output) -> Result<Ended> {
    let options = Options {
        target: args.target.clone(),
        delete: args.delete,
        overwrite: match args.overwrite {
            cli::Overwrite::IfDifferent => Overwrite::IfDifferent,
            cli::Overwrite::Always => Overwrite::Always,
            cli::Overwrite::IfChanged => Overwrite::IfChanged,
            cli::Overwrite::Never => Overwrite::Never,
        },
        verify: args.verify,
        dry_run: args.dry_run,
        threads: globals.threads,
    };
    if args.dry_run {
        output.stop_if_unread();
    }
    let (repo, id, paths) = args.repo_id_and_paths();
    let id = as_id(id)?;
    let stats = match progress::watch(output, |monitor| restore(repo, id, paths, &options, monitor)) {
        Ok(stats) => stats,
        // Nobody reads the plan any more, or the restore had not begun.
        Err(stopped) if is_unread(&stopped.error, output) || stopped.stats.is_none() => {
            return Err(stopped.error);
        }
        Err(stopped) => {
            let status = restore::show_stopped(output, stopped, &options);
            return Ok(Ended::Worked(status));
        }
    };
    restore::show(output, &stats, &options);
    let status = if stats.damaged > 0 { ExitStatus::Damage } else { status(stats.errors) };
    Ok(Ended::Worked(status))
}
