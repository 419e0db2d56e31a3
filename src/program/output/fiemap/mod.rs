//! Lists of extents, one file for each format, written while the extents are read.
//!
//! A listing drops each extent once it is written, so a file with a million extents takes no more memory than a file
//! with one. A format that must know what follows before it can begin holds back a fixed number of extents.
//!
//! To add a format: a file here, a variant of [`Format`], and its line in [`listing`]. Names are escaped by
//! `text::path`; only a format that must equal the output of another program prints them as they are
//! (`docs/security.md`).

mod filefrag;
mod json;
mod listing;
mod table;
mod xfs_io;

pub(crate) use listing::{ExtentListing, Total};

use super::Output;
use super::lines::Lines;
use clap::ValueEnum;

/// The formats of `fiemap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, with holes, in bytes and larger units
    Table,
    /// Like the fiemap command of xfs_io: with -v, or plain if -q is given
    #[value(name = "xfs_io")]
    XfsIo,
    /// Like filefrag -v
    Filefrag,
}

/// The listing that the user wants.
pub(crate) fn listing<'a>(format: Format, output: &'a Output) -> Box<dyn ExtentListing + 'a> {
    let lines = Lines::new(output);
    match format {
        _ if output.is_json() => Box::new(json::Objects::new(lines)),
        Format::Table => Box::new(table::Tables::new(lines)),
        Format::XfsIo => Box::new(xfs_io::XfsIoListing::new(lines, !output.is_quiet())),
        Format::Filefrag => Box::new(filefrag::FilefragListing::new(lines)),
    }
}
