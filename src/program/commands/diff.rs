//! `pleach diff REPO A B [PATH]`.

use super::id::as_id;
use super::outcome::{Ended, status};
use super::patch::Patcher;
use crate::error::{Error, Result};
use crate::program::cli::{self, Globals};
use crate::program::output::{Output, diff as listing, progress};
use crate::snapshot::diff::{Difference, Options, diff};
use std::path::Path;

pub(crate) fn run(args: &cli::Diff, globals: &Globals, output: &Output) -> Result<Ended> {
    let (repo, [old, new], path) = args.repo_ids_and_path();
    let options = Options { path: path.map(Path::to_path_buf), threads: globals.threads, ..Options::default() };
    let (old, new) = (as_id(old)?, as_id(new)?);
    let mut listing = listing::Listing::new(output, args.stat);
    let mut patcher = Patcher::new(output);
    let mut stats = progress::watch_listing(output, |monitor, make_room| {
        diff(repo, (old, new), &options, monitor, &mut |difference: &Difference<'_>| {
            make_room();
            match args.patch {
                true => patcher.show(difference, monitor)?,
                false => listing.add(difference),
            }
            if output.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
        })
    })?;
    stats.errors += patcher.errors();
    listing.finish(&stats);
    Ok(Ended::Listed(status(stats.errors)))
}
