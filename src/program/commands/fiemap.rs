//! `pleach fiemap FILE...`.

use super::outcome::{Ended, status};
use super::owners::Finder;
use super::views::Views;
use crate::error::{ErrorKind, Result};
use crate::fiemap::{self, File, Found, Options, Stats};
use crate::monitor::Monitor;
use crate::program::cli;
use crate::program::exit_status::ExitStatus;
use crate::program::output::fiemap::{ExtentListing, Total, listing};
use crate::program::output::{Output, progress};

pub(crate) fn run(args: &cli::Fiemap, output: &Output) -> Result<Ended> {
    output.stop_if_unread();
    let options = Options { sync: !args.no_sync };
    let mut listing = Views::new(args, listing(args.format, output), output)?;
    let mut total = Total::default();
    // The listing itself shows the progress; a bar between its lines would only disturb it.
    progress::unseen(output, |monitor| {
        let mut owners = args.owners.then(|| Finder::new(&args.files, options.sync, monitor)).transpose()?;
        for found in args.files.iter().flat_map(|path| fiemap::files(path)) {
            let shown = found.and_then(|found| show(&found, &options, &mut listing, monitor));
            let problem = match shown {
                Ok((file, stats)) => {
                    total.add(&stats);
                    let listed = owners.as_mut().map_or(Ok(()), |owners| owners.list(&file, output, monitor));
                    match listed.and_then(|()| file.assert_unchanged()) {
                        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                        checked => checked.err(),
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                Err(error) => Some(error),
            };
            if let Some(error) = problem {
                total.errors += 1;
                monitor.problem(&error);
            }
        }
        listing.show(monitor)
    })?;
    listing.summarize(&total);
    let status = if total.files == 0 { ExitStatus::Failed } else { status(total.errors) };
    Ok(Ended::Listed(status))
}

fn show(
    found: &Found,
    options: &Options,
    listing: &mut dyn ExtentListing,
    monitor: &dyn Monitor,
) -> Result<(File, Stats)> {
    let file = found.open()?;
    let shown = listing.begin(&file).and_then(|()| {
        let stats = fiemap::report(&file, |extent| listing.extent(extent), options, monitor)?;
        listing.end(&file, &stats)?;
        Ok(stats)
    });
    match shown {
        Ok(stats) => Ok((file, stats)),
        Err(error) => {
            listing.break_off();
            Err(error)
        }
    }
}
