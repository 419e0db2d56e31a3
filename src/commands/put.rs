//! `pleach put DEST < data`.

use crate::cli::{self, Globals};
use crate::output::{Output, progress, put as show};
use pleach::error::{ExitStatus, Result};
use pleach::put::{Options, put};
use std::os::fd::AsFd as _;

pub(crate) fn run(args: &cli::Put, globals: &Globals, output: &Output) -> Result<ExitStatus> {
    let options = Options {
        base: args.base.clone(),
        expect_size: args.expect_size,
        expect_blake3: args.expect_blake3,
        index_memory: args.index_memory,
        threads: globals.threads,
    };
    let input = std::io::stdin();
    let stats = progress::watch(output, |monitor| put(input.as_fd(), &args.destination, &options, monitor))?;
    show::show(output, &stats, args);
    Ok(super::told(output, super::status(stats.errors)))
}
