//! The kind, identity and abilities of a filesystem, from statfs(2) and by trying.

use crate::error::{Error, Result};
use crate::sys::{btrfs, reflink, xfs};
use crate::util::semaphore::cores;
use rustix::fs::{Mode, OFlags, StatFs};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::LazyLock;

/// The filesystems that pleach knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// ext2, ext3 or ext4: they share one magic number.
    Ext4,
    /// tmpfs.
    Tmpfs,
    /// overlayfs.
    Overlay,
    /// bcachefs.
    Bcachefs,
    /// ZFS.
    Zfs,
    /// NFS.
    Nfs,
    /// FUSE: a program serves it, bindfs or sshfs, say.
    Fuse,
    /// Another filesystem, by its magic number of statfs(2).
    Other(Magic),
}

/// The magic number of a filesystem without a variant in [`Kind`]. Only [`Kind`] creates values, so a filesystem with a
/// variant is never compared by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Magic(u64);

impl Magic {
    /// The number (`linux/magic.h`).
    pub fn number(self) -> u64 {
        self.0
    }
}

impl Kind {
    /// The best number of threads that create and clone files.
    ///
    /// Creating files locks the trees of the filesystem. On Btrfs more than two threads wait for each other; on XFS one
    /// thread per core is best (docs/benchmarks.md).
    pub(crate) fn writers(self) -> usize {
        if self == Kind::Btrfs { 2 } else { cores() }
    }

    /// The kind of a filesystem that could not be queried.
    pub(crate) const UNKNOWN: Kind = Kind::Other(Magic(0));

    /// The kind of the filesystem of an open file or directory.
    pub(crate) fn of(fd: impl AsFd) -> rustix::io::Result<Kind> {
        Ok(Self::from_statfs(&rustix::fs::fstatfs(fd)?))
    }

    /// The kind from a result of statfs(2), for callers that need more of that result.
    pub(crate) fn from_statfs(statfs: &StatFs) -> Kind {
        Self::from_magic(statfs.f_type as u64)
    }

    /// The kind with this magic number (`linux/magic.h`).
    fn from_magic(magic: u64) -> Kind {
        match magic {
            0x5846_5342 => Kind::Xfs,
            0x9123_683e => Kind::Btrfs,
            0xef53 => Kind::Ext4,
            0x0102_1994 => Kind::Tmpfs,
            0x794c_7630 => Kind::Overlay,
            0xca45_1a4e => Kind::Bcachefs,
            0x2fc1_2fc1 => Kind::Zfs,
            0x6969 => Kind::Nfs,
            0x6573_5546 => Kind::Fuse,
            other => Kind::Other(Magic(other)),
        }
    }
}

impl Kind {
    /// Whether it stores inode numbers. Others invent them, and may give a directory another one later.
    pub(crate) fn has_stable_numbers(self) -> bool {
        matches!(self, Kind::Xfs | Kind::Btrfs | Kind::Ext4 | Kind::Tmpfs | Kind::Bcachefs | Kind::Zfs | Kind::Nfs)
    }

    /// Whether syncfs(2) writes everything and reports failed writes. Overlayfs hides the errors of the filesystem
    /// below, FUSE does not pass the call to its server, and before Linux 5.8 no errors were reported. In these cases
    /// each file must be synced separately.
    pub(crate) fn has_reliable_syncfs(self) -> bool {
        matches!(self, Kind::Xfs | Kind::Btrfs | Kind::Ext4 | Kind::Tmpfs) && syncfs_reports_errors()
    }

    /// Whether the flags of a directory (chattr(1)) show that it ignores case in names.
    pub(crate) fn shows_casefold(self) -> bool {
        const F2FS: Kind = Kind::Other(Magic(0xf2f5_2010));
        matches!(self, Kind::Ext4 | Kind::Tmpfs | Kind::Overlay | Kind::Bcachefs | F2FS)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Xfs => "XFS",
            Kind::Btrfs => "Btrfs",
            Kind::Ext4 => "ext4",
            Kind::Tmpfs => "tmpfs",
            Kind::Overlay => "overlayfs",
            Kind::Bcachefs => "bcachefs",
            Kind::Zfs => "ZFS",
            Kind::Nfs => "NFS",
            Kind::Fuse => "FUSE",
            Kind::Other(magic) => return write!(f, "filesystem 0x{:x}", magic.number()),
        })
    }
}

/// The identity of a filesystem: equal for two directories if and only if their files can share extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    /// The UUID of a Btrfs, where each subvolume has its own `st_dev`.
    Btrfs([u8; 16]),
    /// `st_dev` on other filesystems.
    Device(u64),
}

/// A filesystem, as seen from one of its directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// The kind.
    pub kind: Kind,
    /// The identity.
    pub id: Id,
    /// The unit of allocation and sharing, in bytes.
    pub block_size: u64,
    /// Whether files can share extents, found by trying.
    pub reflink: bool,
}

impl Filesystem {
    /// Examines the filesystem of a directory that this process can write to. `path` is for messages.
    ///
    /// Creates and clones two unnamed files, which leave nothing behind.
    pub fn probe(dir: impl AsFd, path: &Path) -> Result<Filesystem> {
        let failed = |errno: Errno| Error::io("query the filesystem of", path, errno);
        let statfs = rustix::fs::fstatfs(&dir).map_err(failed)?;
        let kind = Kind::from_statfs(&statfs);
        let id = Self::identify(&dir).map_err(failed)?;
        let block_size = statfs.f_bsize as u64;
        let reflink = can_clone(&dir, block_size).map_err(|e| Error::io("write a test file below", path, e))?;
        Ok(Filesystem { kind, id, block_size, reflink })
    }

    /// Whether files on the filesystem of an open file or directory can share data, as far as it can be found without
    /// writing there.
    pub(crate) fn shares_data(fd: impl AsFd) -> bool {
        match Kind::of(&fd) {
            Ok(Kind::Btrfs | Kind::Bcachefs) => true,
            Ok(Kind::Xfs) => xfs::geometry(&fd).is_ok_and(|geometry| geometry.reflink),
            _ => false,
        }
    }

    /// The filesystem of an open file or directory.
    pub fn identify(fd: impl AsFd) -> rustix::io::Result<Id> {
        // Other filesystems refuse the call.
        if let Ok(uuid) = btrfs::filesystem_uuid(&fd) {
            return Ok(Id::Btrfs(uuid));
        }
        Ok(Id::Device(rustix::fs::fstat(fd)?.st_dev))
    }
}

/// Whether syncfs(2) reports failed writes: since Linux 5.8.
fn syncfs_reports_errors() -> bool {
    static REPORTS: LazyLock<bool> = LazyLock::new(|| {
        let system = rustix::system::uname();
        let mut numbers = system
            .release()
            .to_bytes()
            .split(|byte| !byte.is_ascii_digit())
            .map_while(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
        numbers.next().zip(numbers.next()).is_some_and(|version| version >= (5, 8))
    });
    *REPORTS
}

/// A new file without a name, which cannot get one and is deleted when it is closed.
pub(crate) fn unnamed(dir: impl AsFd) -> rustix::io::Result<OwnedFd> {
    without_name(dir, OFlags::EXCL, Mode::RUSR | Mode::WUSR)
}

/// A new file without a name, with these permissions. linkat(2) can give it a name; otherwise it is deleted when it is
/// closed.
pub(crate) fn unnamed_yet(dir: impl AsFd, permissions: Mode) -> rustix::io::Result<OwnedFd> {
    without_name(dir, OFlags::empty(), permissions)
}

fn without_name(dir: impl AsFd, flags: OFlags, permissions: Mode) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::openat(&dir, c".", flags, permissions)
}

/// Creates two unnamed files and shares a block between them.
fn can_clone(dir: impl AsFd, block_size: u64) -> rustix::io::Result<bool> {
    let source = match unnamed(&dir) {
        Ok(file) => file,
        // No filesystem of Linux has reflinks without unnamed files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return Ok(false),
        Err(error) => return Err(error),
    };
    // Longer than an inline file, which is "cloned" without sharing anything.
    let block = vec![0x70; block_size.clamp(4096, 1 << 20) as usize];
    let mut written = 0;
    while written < block.len() {
        written += rustix::io::write(&source, &block[written..])?;
    }
    match reflink::clone(&source, unnamed(&dir)?) {
        Ok(()) => Ok(true),
        // Only now, as a Btrfs that failed.
        Err(Errno::ROFS) => Err(Errno::ROFS),
        Err(_) => Ok(false),
    }
}
