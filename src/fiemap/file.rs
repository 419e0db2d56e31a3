//! A regular file, open for mapping, and the filesystem it is on.
//!
//! The type of a path is determined without opening it, since opening a pipe or a device can hang or have side effects.
//! The examined inode is then the one that is opened.

use crate::error::{Error, Result};
use crate::fs::status::Status;
use crate::sys;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A regular file, open for mapping.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    fd: OwnedFd,
    status: Status,
}

/// The filesystem of a file, in the terms of statfs(2) and related calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The device number that stat(2) reports for the file; on Btrfs each subvolume has its own.
    pub dev: u64,
    /// The magic number of `linux/magic.h`.
    pub magic: u64,
    /// Blocks in all, in units of `statfs_block`.
    pub blocks: u64,
    /// Inodes in all.
    pub inodes: u64,
    /// The unit in which statfs(2) counts, in bytes.
    pub statfs_block: u64,
    /// The unit of allocation, in bytes (`FIGETBSZ`).
    pub block_size: u64,
}

/// Opens a file for mapping. A symbolic link is followed.
///
/// # Errors
/// If there is no such file, it is not a regular file, or it may not be read.
pub fn open(path: &Path) -> Result<File> {
    // A descriptor that names the inode without opening it: no pipe gets a reader, no tape rewinds.
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    open_place(&place.map_err(|errno| Error::io("open", path, errno))?, path)
}

/// The same for the inode of an `O_PATH` descriptor; `path` is for messages.
pub(super) fn open_place(place: &OwnedFd, path: &Path) -> Result<File> {
    let failed = |errno: Errno| Error::io("open", path, errno);
    let status = Status::of(place).map_err(failed)?;
    match status.file_type() {
        FileType::RegularFile => {}
        FileType::Directory => {
            return Err(Error::failed("map")
                .at(path)
                .because(Errno::ISDIR)
                .hint("its files can be mapped, each by its path"));
        }
        other => {
            let cause = io::Error::other(format!("it is {}", called(other)));
            return Err(Error::io("map", path, cause).hint("only regular files have extents"));
        }
    }
    let fd = reopen(place, path, &status).map_err(failed)?;
    Ok(File { path: path.to_path_buf(), fd, status })
}

impl File {
    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its apparent size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        self.status.size
    }

    /// Its status when it was opened.
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// Its apparent size in bytes now.
    ///
    /// # Errors
    /// If its filesystem does not report it.
    pub fn size_now(&self) -> Result<u64> {
        Ok(self.status_now()?.size)
    }

    /// Checks that its size and mtime are still the same as when it was opened. Its map is then of one moment, as far
    /// as timestamps show.
    ///
    /// # Errors
    /// If they have changed.
    pub fn assert_unchanged(&self) -> Result<()> {
        let now = self.status_now()?;
        if (now.size, now.mtime) == (self.status.size, self.status.mtime) {
            return Ok(());
        }
        let cause = io::Error::other("it changed while it was read");
        Err(Error::io("map", &self.path, cause).hint("the extents shown are not of one moment"))
    }

    /// The filesystem that it is on.
    ///
    /// # Errors
    /// If that is unknown.
    pub(crate) fn place(&self) -> Result<Place> {
        let failed = |errno: Errno| Error::io("query the filesystem of", &self.path, errno);
        let statfs = rustix::fs::fstatfs(&self.fd).map_err(failed)?;
        let statfs_block = statfs.f_bsize as u64;
        let block_size = sys::block::size(&self.fd).map(u64::from).unwrap_or(0);
        Ok(Place {
            dev: self.status.dev,
            magic: statfs.f_type as u64,
            blocks: statfs.f_blocks,
            inodes: statfs.f_files,
            statfs_block,
            block_size: [block_size, statfs_block, 4096].into_iter().find(|size| *size > 0).unwrap_or(4096),
        })
    }

    /// Whether its blocks are listed one by one, as on ext2 and ext3, instead of in extents.
    pub(crate) fn has_indirect_blocks(&self, place: &Place) -> bool {
        /// `EXT4_EXTENTS_FL`.
        const EXTENTS: u32 = 0x0008_0000;
        // The magic numbers of the ext family.
        (0xef51..=0xef53).contains(&place.magic)
            && rustix::fs::ioctl_getflags(&self.fd).is_ok_and(|flags| flags.bits() & EXTENTS == 0)
    }

    fn status_now(&self) -> Result<Status> {
        Status::of(&self.fd).map_err(|errno| Error::io("read the status of", &self.path, errno))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens the inode behind an `O_PATH` descriptor for reading, so that the examined inode is the one that is opened.
fn reopen(place: &OwnedFd, path: &Path, status: &Status) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let by_descriptor = format!("/proc/self/fd/{}", place.as_raw_fd());
    let open = |path: &Path, more: OFlags| rustix::fs::open(path, flags | more, Mode::empty());
    // Mapping must not update the access time; the kernel allows `O_NOATIME` to the owner and to root.
    let open = |path: &Path| open(path, OFlags::NOATIME).or_else(|_| open(path, OFlags::empty()));
    match open(Path::new(&by_descriptor)) {
        // Only if /proc is not mounted: then open by the path, and check that it is still the same file.
        Err(Errno::NOENT) => {
            let fd = open(path)?;
            if Status::of(&fd)?.is_same_inode(status) { Ok(fd) } else { Err(Errno::STALE) }
        }
        result => result,
    }
}

fn called(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Symlink => "a symbolic link",
        _ => "a special file",
    }
}
