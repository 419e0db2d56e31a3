//! Identifies one mount of a filesystem: from mounting to unmounting, within one boot.
//!
//! Data that a process wrote is visible to every later process within the same mount, even if the process was killed:
//! it is in the page cache. From an earlier mount only synced data is certain.

use crate::fs::filesystem::Kind;
use crate::sys::btrfs;
use crate::util::digest;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A mount. Equal values mean the same mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountId {
    /// The identifier of this boot.
    pub(crate) boot: String,
    /// The inode number of the filesystem's directory in sysfs, which is created by mounting. Numbers are not reused.
    pub(crate) mount: u64,
}

impl MountId {
    /// The current mount of the filesystem of an open file or directory; `None` if unknown.
    pub(crate) fn of(fd: impl AsFd) -> Option<MountId> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_string();
        let mount = fs::metadata(directory(fd)?).ok()?.ino();
        (!boot.is_empty()).then_some(MountId { boot, mount })
    }

    /// A number that is equal for equal mounts.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.mount.to_le_bytes()).update(self.boot.as_bytes());
        digest::prefix(hasher.finalize().as_bytes())
    }
}

/// The filesystem's directory in sysfs.
fn directory(fd: impl AsFd) -> Option<PathBuf> {
    let below = Path::new("/sys/fs");
    match Kind::of(&fd).ok()? {
        Kind::Btrfs => {
            let mut name = String::new();
            for (number, byte) in btrfs::filesystem_uuid(&fd).ok()?.iter().enumerate() {
                let dash = if matches!(number, 4 | 6 | 8 | 10) { "-" } else { "" };
                write!(name, "{dash}{byte:02x}").ok()?;
            }
            Some(below.join("btrfs").join(name))
        }
        Kind::Xfs => Some(below.join("xfs").join(device(fd)?)),
        Kind::Ext4 => Some(below.join("ext4").join(device(fd)?)),
        _ => None,
    }
}

/// The kernel's name of the device.
fn device(fd: impl AsFd) -> Option<PathBuf> {
    let dev = rustix::fs::fstat(fd).ok()?.st_dev;
    let link = format!("/sys/dev/block/{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
    Some(fs::read_link(link).ok()?.file_name()?.into())
}
