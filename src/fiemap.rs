//! Lists the extents of one file, in the order of the kernel's list.
//!
//! Nothing is collected: a file with a million extents takes no more memory than a file with one. `found` finds the
//! files of a path, `file` opens them. `owners` finds all files that hold their extents. The output formats are
//! elsewhere.

mod file;
mod found;
pub(crate) mod owners;

pub use crate::extents::extent::{Extent, ExtentFlags};
pub(crate) use file::Place;
pub use file::{File, open};
pub use found::{Found, files};

use crate::error::{Error, Result};
use crate::extents::extent::Reported;
use crate::monitor::Monitor;
use crate::sys;
use rustix::io::Errno;

/// Options for mapping a file.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Write the file's dirty pages first. Without it, data that has no address yet shows as delayed.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { sync: true }
    }
}

/// Totals of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of extents.
    pub extents: u64,
    /// Bytes in extents that have an address and that the kernel marks as shared.
    pub shared_bytes: u64,
}

/// Passes the file's extents to `each`, in the order of their offsets.
///
/// ```
/// use pleach::fiemap::{Options, map, open};
/// let mut temporary = tempfile::NamedTempFile::new()?;
/// std::io::Write::write_all(&mut temporary, &[7; 1 << 20])?;
///
/// let file = open(temporary.path())?;
/// let mut bytes = 0;
/// match map(&file, |extent| bytes += extent.length, &Options::default(), &pleach::monitor::Silent) {
///     Ok(stats) => assert!(stats.extents >= 1 && bytes == 1 << 20),
///     Err(error) => assert_eq!(error.code(), "unsupported"), // tmpfs keeps no extent maps
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the filesystem keeps no extent maps, a call fails, or the monitor asks to stop.
pub fn map(file: &File, mut each: impl FnMut(&Extent), options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    report(file, |reported| each(&reported.extent()), options, monitor)
}

/// Passes the file's extents to `each` exactly as the kernel reports them.
///
/// # Errors
/// As [`map`].
pub(crate) fn report(
    file: &File,
    mut each: impl FnMut(&Reported),
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let mut stats = Stats::default();
    let mut extents = sys::fiemap::extents(file, options.sync);
    while let Some(reported) = extents.next_reported() {
        let reported = reported.map_err(|errno| unmappable(file, errno))?;
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        stats.extents += 1;
        if reported.extent().is_shared() {
            stats.shared_bytes += reported.length;
        }
        each(&reported);
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
