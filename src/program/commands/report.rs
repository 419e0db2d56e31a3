//! `pleach report REPO`.

use super::outcome::{Ended, status};
use super::time_zone::names_time_zone;
use crate::error::{Error, Result};
use crate::program::cli::{self, Globals};
use crate::program::output::{Output, progress, report as show};
use crate::snapshot::report::{Options, report};
use crate::util::text;

pub(crate) fn run(args: &cli::Report, globals: &Globals, output: &Output) -> Result<Ended> {
    let file = args.html.as_deref().filter(|_| !args.is_on_stdout());
    if let Some(path) = file {
        show::check(path)?;
    }
    if args.is_on_stdout() && output.is_terminal() {
        let error = Error::usage("write a page for a browser to a terminal");
        return Err(error.hint("name a file, or redirect stdout"));
    }
    let options = Options {
        measure: !args.no_measure,
        keep: args.keep.keep(),
        compared: args.compare,
        files: args.largest,
        threads: globals.threads,
        require_local_time: names_time_zone(),
        ..Options::default()
    };
    let (stats, page) = progress::watch(output, |monitor| {
        let stats = report(&args.repo, &options, monitor)?;
        let page = args.html.as_ref().map(|_| show::page(&stats, monitor)).transpose()?;
        Ok::<_, Error>((stats, page))
    })?;
    match (&page, file) {
        (Some(page), Some(path)) => {
            show::save(path, page)?;
            output.info(&format!("report written to {}", text::path(path)));
        }
        (Some(page), None) => output.text(page.as_bytes()),
        (None, _) => {}
    }
    if page.is_none() || output.is_json() {
        show::show(output, &stats);
    }
    let status = status(stats.errors);
    Ok(if file.is_some() { Ended::Worked(status) } else { Ended::Listed(status) })
}
