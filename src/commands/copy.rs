//! `pleach copy SOURCE... DEST`.

use crate::cli::{self, Globals};
use crate::output::{Output, copy, progress};
use pleach::copy_tree::{self, Into, Options};
use pleach::error::{ExitStatus, Result};

pub(crate) fn run(args: &cli::Copy, globals: &Globals, output: &Output) -> Result<ExitStatus> {
    let options = Options {
        engine: args.engine.engine(),
        into: match (&args.target_directory, args.no_target_directory) {
            (Some(_), _) => Into::Directory,
            (None, true) => Into::Name,
            (None, false) => Into::AsItStands,
        },
        verify: args.verify,
        one_file_system: args.one_file_system,
        dry_run: args.dry_run,
        threads: globals.threads,
    };
    let (sources, destination) = args.sources_and_destination();
    let stats = progress::watch(output, |monitor| copy_tree::copy(sources, destination, &options, monitor))?;
    copy::show(output, &stats, destination, &options);
    let status = match () {
        () if stats.damaged > 0 => ExitStatus::Damage,
        // Nothing at all came over.
        () if stats.errors > 0 && stats.entries() == 0 => ExitStatus::Failed,
        () => super::status(stats.errors),
    };
    Ok(super::told(output, status))
}
