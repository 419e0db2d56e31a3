//! `pleach put DEST < data`, `pleach put DEST -- COMMAND [ARG]...`.

use super::outcome::{Ended, status};
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::output::{Output, progress, put as show};
use crate::put::{Options, Source, put};
use std::os::fd::AsFd as _;

pub(crate) fn run(args: &cli::Put, globals: &Globals, output: &Output) -> Result<Ended> {
    let options = Options {
        base: args.base.clone(),
        expect_size: args.expect_size,
        expect_blake3: args.expect_blake3,
        allow_empty: args.allow_empty,
        index_memory: args.index_memory,
        threads: globals.threads,
        shares_terminal: true,
    };
    let stdin = std::io::stdin();
    let source = if args.command.is_empty() { Source::Stream(stdin.as_fd()) } else { Source::Command(&args.command) };
    let stats = progress::watch(output, |monitor| put(source, &args.destination, &options, monitor))?;
    show::show(output, &stats, &args.destination);
    Ok(Ended::Worked(status(stats.errors)))
}
