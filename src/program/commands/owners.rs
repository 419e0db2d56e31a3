//! The part of `pleach fiemap` behind `--owners`: all files are announced first, then each is listed.

use crate::error::{ErrorKind, Result};
use crate::fiemap::owners::{Options, Owners, Subject};
use crate::fiemap::{self, File};
use crate::monitor::Monitor;
use crate::program::output::Output;
use crate::program::output::owners::OwnersListing;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

/// The known owners of the files to list.
pub(super) struct Finder(Owners);

impl Finder {
    /// Finds the names of all owners of the files at these paths.
    pub(super) fn new(paths: &[PathBuf], sync: bool, monitor: &dyn Monitor) -> Result<Self> {
        let mut owners = Owners::new(Options { sync });
        for found in paths.iter().flat_map(|path| fiemap::files(path)) {
            let announced = found.and_then(|found| found.open()).and_then(|file| {
                let subject = Subject { path: file.path(), fd: file.as_fd() };
                owners.announce(subject, monitor)
            });
            match announced {
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                // The error is reported when the file is listed.
                _ => {}
            }
        }
        owners.resolve(monitor)?;
        Ok(Finder(owners))
    }

    /// Lists the owners of a file's extents.
    pub(super) fn list(&mut self, file: &File, output: &Output, monitor: &dyn Monitor) -> Result<()> {
        let mut listing = OwnersListing::new(output, file.path());
        let subject = Subject { path: file.path(), fd: file.as_fd() };
        let stats = self.0.list(subject, &mut |held| listing.range(held), monitor)?;
        listing.end(&stats);
        Ok(())
    }
}
