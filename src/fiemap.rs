//! The extents of one file, handed on as the kernel lists them.
//!
//! Nothing is collected: a file of a million extents takes no more memory than a file of one. Which files are meant is
//! found by `found`, how they are opened is in `file`; how extents are shown is not decided here.

mod file;
mod found;

pub use file::{File, Place, open};
pub use found::{Found, files};

use crate::error::{Error, Result};
use crate::extents::extent::{Extent, Told};
use crate::monitor::Monitor;
use crate::sys;
use rustix::io::Errno;

/// How a file is mapped.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Have the kernel write the file's dirty pages first: without it data without an address yet shows as delayed.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { sync: true }
    }
}

/// What was found in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of extents.
    pub extents: u64,
    /// Bytes in extents that have an address and that the kernel calls shared.
    pub shared_bytes: u64,
}

/// Hands the file's extents to `each`, in the order of their offsets.
///
/// # Errors
/// If the filesystem keeps no extent maps, a call fails, or the monitor asks to stop.
pub fn map(file: &File, mut each: impl FnMut(&Extent), options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    tell(file, |told| each(&told.extent()), options, monitor)
}

/// The same in the kernel's own words, for those who repeat them.
///
/// # Errors
/// As [`map`].
pub fn tell(file: &File, mut each: impl FnMut(&Told), options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let mut stats = Stats::default();
    let mut extents = sys::fiemap::extents(file, options.sync);
    while let Some(told) = extents.next_told() {
        let told = told.map_err(|errno| unmappable(file, errno))?;
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        stats.extents += 1;
        if told.extent().is_shared() {
            stats.shared_bytes += told.length;
        }
        each(&told);
    }
    Ok(stats)
}

fn unmappable(file: &File, errno: Errno) -> Error {
    match errno {
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS => {
            Error::failed("map").at(file.path()).because(Errno::OPNOTSUPP).hint("its filesystem keeps no extent maps")
        }
        errno => Error::io("map", file.path(), errno),
    }
}
