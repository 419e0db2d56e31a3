//! The common parts of all formats: the steps of a listing, the totals, and names as other programs print them.

use crate::error::Result;
use crate::extents::extent::{ExtentFlags, Reported};
use crate::fiemap::{File, Stats};
use crate::program::output::Output;
use crate::util::text;
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The totals of all files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub(crate) files: u64,
    pub(crate) extents: u64,
    pub(crate) shared_bytes: u64,
    pub(crate) errors: u64,
}

impl Total {
    /// Adds a file.
    pub(crate) fn add(&mut self, stats: &Stats) {
        self.files += 1;
        self.extents += stats.extents;
        self.shared_bytes += stats.shared_bytes;
    }
}

/// The listing of files, one after the other. For each: [`begin`](ExtentListing::begin), its extents, and
/// [`end`](ExtentListing::end), or [`break_off`](ExtentListing::break_off) if the file cannot be listed to its end.
pub(crate) trait ExtentListing {
    /// Begins a file.
    ///
    /// # Errors
    /// If something that the format shows cannot be determined; then the caller must break the file off.
    fn begin(&mut self, file: &File) -> Result<()>;

    /// Adds the file's next extent.
    fn extent(&mut self, extent: &Reported);

    /// Ends the file: all its extents were added.
    ///
    /// # Errors
    /// As with [`ExtentListing::begin`].
    fn end(&mut self, file: &File, stats: &Stats) -> Result<()>;

    /// Ends a file that could not be read to its end. Writes the extents that were held back.
    fn break_off(&mut self);

    /// Ends the listing: no more files follow.
    fn summarize(&mut self, total: &Total);
}

/// A file's name as filefrag and xfs_io print it: byte by byte, because scripts rely on that. The name is escaped only
/// for a terminal, which would act upon control characters.
pub(super) fn raw_name<'a>(path: &'a Path, output: &Output) -> Cow<'a, [u8]> {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = || std::str::from_utf8(bytes).is_ok_and(|name| !name.contains(text::is_unprintable));
    if !output.is_terminal() || is_plain() {
        Cow::Borrowed(bytes)
    } else {
        Cow::Owned(text::escape(path.as_os_str()).into_bytes())
    }
}

/// Whether any of these flags is set.
pub(super) fn has(extent: &Reported, flags: ExtentFlags) -> bool {
    extent.flags.intersects(flags)
}
