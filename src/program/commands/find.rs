//! `pleach find REPO PATTERN`.

use super::outcome::{Ended, status};
use crate::error::{Error, Result};
use crate::program::cli;
use crate::program::output::{Output, find as listing, progress};
use crate::snapshot::find::{Options, find};

pub(crate) fn run(args: &cli::Find, output: &Output) -> Result<Ended> {
    let (repo, pattern) = args.repo_and_pattern();
    let text = pattern.to_str().ok_or_else(|| {
        Error::usage("understand the pattern").at(pattern).hint("it is not UTF-8; '?' matches any byte")
    })?;
    let mut listing = listing::Listing::new(output);
    let stats = progress::watch_listing(output, |monitor, make_room| {
        find(repo, text, &Options::default(), monitor, &mut |found| {
            make_room();
            listing.add(found);
            if output.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
        })
    })?;
    listing.finish(&stats, pattern);
    Ok(Ended::Listed(status(stats.errors)))
}
