//! Recognizes mount points from the directory above them, without opening the mounted filesystem.

use crate::fs::filesystem::{Filesystem, Id};
use crate::fs::openat;
use rustix::fs::{AtFlags, FileType, StatxAttributes, StatxFlags};
use std::os::fd::OwnedFd;

/// Whether two open directories are on different filesystems. If one cannot be queried, they count as different.
pub(super) fn is_another(above: &OwnedFd, below: &OwnedFd) -> bool {
    let ids = Filesystem::identify(above).and_then(|above| Ok((above, Filesystem::identify(below)?)));
    ids.map_or(true, |(above, below)| above != below)
}

/// Whether the directory `name` in `above` is the top of another filesystem. `dev` is the device of `above`.
///
/// The subvolumes of one Btrfs have their own devices but are one filesystem, mounted in it or not. An automount is not
/// triggered.
pub(crate) fn is_elsewhere(above: &OwnedFd, dev: u64, name: &[u8]) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    // An entry that cannot be queried cannot be opened either, and opening it reports that.
    let Ok(found) = rustix::fs::statx(above, name, flags, StatxFlags::TYPE) else { return false };
    if rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor) == dev
        || FileType::from_raw_mode(found.stx_mode.into()) != FileType::Directory
    {
        return false;
    }
    // Only a subvolume has another device without being a mount point (Linux before 5.8 does not report this).
    let tells = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    if tells && !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return false;
    }
    let Ok(id @ Id::Btrfs(_)) = Filesystem::identify(above) else { return true };
    let inside = openat::open_subdir(above, name).and_then(Filesystem::identify);
    inside.is_ok_and(|inside| inside != id)
}
