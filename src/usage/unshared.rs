//! The bytes that sets of files hold and nothing else does, neither another file nor another part of the same file: for
//! all sets at once, by the numbers of their inodes, on an XFS with a reverse map.

use super::device::{Device, Devices};
use super::inodes::Inodes;
use super::xfs::access;
use super::xfs::listed::{self, Listed};
use super::xfs::reverse_map;
use crate::error::Result;
use crate::fs::filesystem::Kind;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// A filesystem that shows this.
pub(crate) struct Unshared(Arc<Device>);

impl Unshared {
    /// The filesystem of an open directory, which is synced. `None` if it does not show this, or not to this process.
    pub(crate) fn of(fd: BorrowedFd<'_>, path: &Path) -> Option<Unshared> {
        let is_usable = Kind::of(fd).is_ok_and(|kind| kind == Kind::Xfs) && access::is_usable(fd);
        let status = is_usable.then(|| Status::of(fd).ok()).flatten()?;
        Devices::new(true, true).of(status.dev, fd, path).ok().map(Unshared)
    }

    /// The bytes in extents of each set that nothing else refers to. A file with several names counts if one set has
    /// all of them. `None` if it takes longer than reading the extents of each file.
    ///
    /// # Errors
    /// If the inodes cannot be listed, or the run is cancelled.
    pub(crate) fn bytes(&self, sets: &[Inodes], monitor: &dyn Monitor) -> Result<Option<Vec<u64>>> {
        let mut all = Inodes::default();
        for set in sets {
            for inode in set.runs().flatten() {
                (0..set.names(inode)).for_each(|_| {
                    all.add(inode);
                });
            }
        }
        let volume = &*self.0.volume;
        monitor.phase("listing inodes", Some(Amount { files: all.count(), bytes: 0 }));
        let lists: Vec<_> = sets.iter().map(|set| set.runs().collect()).collect();
        let Listed { files, .. } = listed::list(volume, &lists, &all, monitor)?;
        monitor.phase("reading the reverse map", None);
        let Some(owned) = reverse_map::read(volume, &files, sets.len(), monitor)? else { return Ok(None) };
        let mut bytes = vec![0; sets.len()];
        for (group, sums) in files.groups.iter().zip(&owned.groups) {
            if let ([set], true) = (&group.paths[..], group.leaves) {
                bytes[*set] += sums.unshared;
            }
        }
        Ok(Some(bytes))
    }
}
