//! `pleach snapshot SOURCE... REPO`.

use crate::cli::{self, Globals};
use crate::output::{Output, progress, snapshot};
use pleach::error::{ExitStatus, Result};
use pleach::snapshot::create::{self, Hash, Options, Unchanged};

pub(crate) fn run(args: &cli::Snapshot, globals: &Globals, output: &Output) -> Result<ExitStatus> {
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
        dry_run: args.dry_run,
    };
    let (sources, repo) = args.sources_and_repo();
    let stats = progress::watch(output, |monitor| create::create(sources, repo, &options, monitor))?;
    snapshot::show(output, &stats, repo, &options);
    let falls_short = args.require_sharing.and_then(|required| snapshot::shortfall(&stats, required));
    if let Some(sentence) = &falls_short {
        output.error(sentence);
    }
    Ok(super::told(output, super::status(stats.errors + u64::from(falls_short.is_some()))))
}
