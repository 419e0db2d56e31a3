//! `pleach restore REPO ID [PATH...] --target DIR`.

use super::id::as_id;
use super::outcome::{Ended, is_unread, status};
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, progress, restore};
use crate::snapshot::restore::{Options, Overwrite, Stopped, restore};

pub(crate) fn run(args: &cli::Restore, globals: &Globals, output: &Output) -> Result<Ended> {
    if args.dry_run {
        output.stop_if_unread();
    }
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
    let (repo, id, paths) = args.repo_id_and_paths();
    let id = as_id(id)?;
    let stats = match progress::watch(output, |monitor| restore(repo, id, paths, &options, monitor)) {
        Ok(stats) => stats,
        Err(Stopped { error, stats: Some(mut stats) }) if !is_unread(&error, output) => {
            // Why it ended.
            stats.errors += 1;
            let status = ExitStatus::of(&error);
            restore::show_stopped(output, error, &stats, &options);
            return Ok(Ended::Worked(status));
        }
        // Nobody reads the plan any more, or the restore had not begun.
        Err(stopped) => return Err(stopped.error),
    };
    restore::show(output, &stats, &options);
    let status = if stats.damaged > 0 { ExitStatus::Damage } else { status(stats.errors) };
    Ok(Ended::Worked(status))
}
