//! `pleach fiemap FILE...`.

use crate::cli;
use crate::output::fiemap::{Listing, summarize};
use crate::output::{Output, progress};
use pleach::error::{ErrorKind, ExitStatus, Result};
use pleach::fiemap::{self, Options, Stats};
use pleach::monitor::Monitor;
use std::path::Path;

pub(crate) fn run(args: &cli::Fiemap, output: &Output) -> Result<ExitStatus> {
    let options = Options { sync: !args.no_sync };
    let mut total = Stats::default();
    let (mut files, mut errors) = (0, 0);
    // The listing itself shows how far it is; a bar between its lines would only disturb it.
    progress::unseen(output, |monitor| {
        for path in args.files.iter().flat_map(|path| fiemap::files(path)) {
            match path.and_then(|path| list(&path, &options, output, monitor)) {
                Ok(stats) => {
                    files += 1;
                    total.extents += stats.extents;
                    total.shared_bytes += stats.shared_bytes;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    errors += 1;
                    monitor.problem(&error);
                }
            }
        }
        Ok(())
    })?;
    summarize(output, files, &total, errors);
    Ok(if files == 0 { ExitStatus::Failed } else { super::status(errors) })
}

fn list(path: &Path, options: &Options, output: &Output, monitor: &dyn Monitor) -> Result<Stats> {
    let file = fiemap::open(path)?;
    let mut listing = Listing::new(output, &file);
    let stats = fiemap::map(&file, |extent| listing.extent(extent), options, monitor)?;
    listing.end(&stats);
    Ok(stats)
}
