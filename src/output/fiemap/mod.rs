//! Lists of extents, one file for each format, written as the extents come.
//!
//! A listing keeps nothing of an extent that it has written, so that a file of a million takes no more memory than a
//! file of one. Where a format must know what comes before it can begin, it holds back a fixed number of extents.

mod filefrag;
mod json;
mod listing;
mod table;
mod xfs_io;

pub(crate) use listing::{Listing, Total};

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
pub(crate) fn listing<'a>(format: Format, output: &'a Output) -> Box<dyn Listing + 'a> {
    let lines = Lines::new(output);
    match format {
        _ if output.is_json() => Box::new(json::Objects::new(lines)),
        Format::Table => Box::new(table::Tables::new(lines)),
        Format::XfsIo => Box::new(xfs_io::Listing::new(lines, !output.is_quiet())),
        Format::Filefrag => Box::new(filefrag::Listing::new(lines)),
    }
}
