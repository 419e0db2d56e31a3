//! The status of an inode: type, identity, size and times, from `statx(2)` and `fstat(2)`.
//!
//! One structure for both calls, so that a status by name can be compared with that of the file opened afterwards.

use rustix::fs::{AtFlags, FileType, StatxFlags, StatxTimestamp, Timespec, Timestamps};
use rustix::io::Result;
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

/// A timestamp of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time {
    /// Seconds since 1970-01-01T00:00:00Z; negative before it.
    pub seconds: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nanos: u32,
}

/// The status of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Type and permission bits as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Apparent size in bytes.
    pub size: u64,
    /// Bytes allocated.
    pub allocated: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Creation, if the filesystem records it.
    pub btime: Option<Time>,
    /// The device of the filesystem (Btrfs: of the subvolume).
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
    /// Hard links.
    pub nlink: u64,
    /// For a device node: major and minor number.
    pub rdev: (u32, u32),
}

impl Status {
    /// The status of `name` in `dir`. Symbolic links are not followed.
    pub fn at(dir: impl AsFd, name: &[u8]) -> Result<Status> {
        Self::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The status of a path. Symbolic links are followed.
    pub fn of_path(path: &std::path::Path) -> Result<Status> {
        Self::statx(rustix::fs::CWD, path.as_os_str().as_bytes(), AtFlags::empty())
    }

    /// The status of an open file.
    pub fn of(fd: impl AsFd) -> Result<Status> {
        Self::statx(fd, b"", AtFlags::EMPTY_PATH)
    }

    fn statx(fd: impl AsFd, name: &[u8], flags: AtFlags) -> Result<Status> {
        let s = rustix::fs::statx(fd, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
        let has_btime = s.stx_mask & StatxFlags::BTIME.bits() != 0;
        Ok(Status {
            mode: u32::from(s.stx_mode),
            uid: s.stx_uid,
            gid: s.stx_gid,
            size: s.stx_size,
            allocated: s.stx_blocks.saturating_mul(512),
            atime: time(s.stx_atime),
            mtime: time(s.stx_mtime),
            ctime: time(s.stx_ctime),
            btime: has_btime.then(|| time(s.stx_btime)),
            dev: rustix::fs::makedev(s.stx_dev_major, s.stx_dev_minor),
            ino: s.stx_ino,
            nlink: u64::from(s.stx_nlink),
            rdev: (s.stx_rdev_major, s.stx_rdev_minor),
        })
    }

    /// The type of the inode.
    pub fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// The permission bits, including set-id and sticky.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    /// Whether the inode has this modification time, as finely as its filesystem stores it. If its change time ends in
    /// zeros too, the filesystem is assumed to store whole seconds.
    pub(crate) fn has_mtime(&self, wanted: Time) -> bool {
        let is_coarse = self.mtime.nanos == 0 && self.ctime.nanos == 0;
        self.mtime == wanted || (is_coarse && self.mtime.seconds == wanted.seconds)
    }

    /// Whether both are the same inode.
    pub fn is_same_inode(&self, other: &Status) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }

    /// Whether the inode did not change between the two: same inode, type, size, mtime and ctime.
    pub fn is_untouched_since(&self, earlier: &Status) -> bool {
        self.is_same_inode(earlier)
            && self.file_type() == earlier.file_type()
            && (self.size, self.mtime, self.ctime) == (earlier.size, earlier.mtime, earlier.ctime)
    }
}

fn time(t: StatxTimestamp) -> Time {
    Time { seconds: t.tv_sec, nanos: t.tv_nsec }
}

impl Time {
    /// The current time of the clock for file timestamps. It is as coarse as they are, so a later change never gets an
    /// earlier timestamp.
    pub fn now() -> Time {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Time { seconds: now.tv_sec, nanos: now.tv_nsec as u32 }
    }

    /// The form that the kernel uses.
    pub(crate) fn timespec(self) -> Timespec {
        Timespec { tv_sec: self.seconds, tv_nsec: self.nanos.into() }
    }
}

/// Access and modification time in the kernel's form.
pub fn timestamps(atime: Time, mtime: Time) -> Timestamps {
    Timestamps { last_access: atime.timespec(), last_modification: mtime.timespec() }
}
