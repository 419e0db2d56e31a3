//! `pleach tag REPO ID [+TAG|-TAG]...`, `pleach pin REPO ID` and `pleach unpin REPO ID`.

use super::id::as_id;
use super::outcome::{Ended, status};
use crate::error::Result;
use crate::program::cli;
use crate::program::output::{Output, progress, tag as show};
use crate::snapshot::tag::{Options, tag};
use std::path::Path;

pub(crate) fn run(args: &cli::Tag, output: &Output) -> Result<Ended> {
    let options = Options { add: args.add.clone(), remove: args.remove.clone(), pin: None };
    change("tag", args.repo_and_id(), &options, output)
}

pub(crate) fn run_pin(args: &cli::Pin, pin: bool, output: &Output) -> Result<Ended> {
    let options = Options { pin: Some(pin), ..Options::default() };
    change(if pin { "pin" } else { "unpin" }, args.repo_and_id(), &options, output)
}

fn change(command: &'static str, (repo, id): (&Path, &Path), options: &Options, output: &Output) -> Result<Ended> {
    let id = as_id(id.as_os_str())?;
    let stats = progress::watch(output, |monitor| tag(repo, id, options, monitor))?;
    show::show(output, command, &stats);
    let status = status(stats.errors);
    // Also if it was so before: then what an earlier run could not sync is on the disk now.
    let is_change = options.pin.is_some() || !options.add.is_empty() || !options.remove.is_empty();
    Ok(if is_change { Ended::Worked(status) } else { Ended::Listed(status) })
}
