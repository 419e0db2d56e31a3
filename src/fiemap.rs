//! The extents of one file, handed on as the kernel lists them.
//!
//! Nothing is collected: a file of a million extents takes no more memory than a file of one. Only regular files are
//! opened; what a path is, is found out without opening it, since opening a pipe or a device can hang or do things.

use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::monitor::Monitor;
use crate::sys;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

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

/// A regular file, open for mapping.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    fd: OwnedFd,
    size: u64,
}

impl File {
    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its apparent size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// The regular files that a path names: itself, or all below a directory in the order of their names. Links below it
/// are not followed, and what is neither file nor directory there is passed over.
pub fn files(path: &Path) -> impl Iterator<Item = Result<PathBuf>> {
    let is_directory = path.is_dir();
    // The command's user named the path, so it is followed as every command follows it.
    let named = (!is_directory).then(|| Ok(path.to_path_buf()));
    let below = is_directory.then(|| WalkDir::new(path).sort_by_file_name().into_iter()).into_iter().flatten();
    let mut below = below
        .filter_map(|entry| match entry {
            Ok(entry) => entry.file_type().is_file().then(|| Ok(entry.into_path())),
            Err(error) => {
                let path = error.path().map(Path::to_path_buf).unwrap_or_default();
                Some(Err(Error::io("read", path, error)))
            }
        })
        .peekable();
    let is_empty = is_directory && below.peek().is_none();
    let nothing = is_empty.then(|| Err(Error::failed("find a regular file below").at(path)));
    named.into_iter().chain(nothing).chain(below)
}

/// Opens a file for mapping. A symbolic link is followed.
///
/// # Errors
/// If there is no such file, it is not a regular one, or it may not be read.
pub fn open(path: &Path) -> Result<File> {
    let failed = |errno: Errno| Error::io("open", path, errno);
    // A descriptor that names the inode without opening it: no reader of a pipe appears, no tape rewinds.
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&place).map_err(failed)?;
    match FileType::from_raw_mode(stat.st_mode) {
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
    let fd = reopen(&place, path, (stat.st_dev, stat.st_ino)).map_err(failed)?;
    Ok(File { path: path.to_path_buf(), fd, size: stat.st_size as u64 })
}

/// Hands the file's extents to `each`, in the order of their offsets.
///
/// # Errors
/// If the filesystem keeps no extent maps, a read fails, or the monitor asks to stop.
pub fn map(file: &File, mut each: impl FnMut(&Extent), options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let mut stats = Stats::default();
    for extent in sys::fiemap::extents(&file.fd, options.sync) {
        let extent = extent.map_err(|errno| unmappable(file, errno))?;
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        stats.extents += 1;
        if extent.is_shared() {
            stats.shared_bytes += extent.length;
        }
        each(&extent);
    }
    Ok(stats)
}

/// Opens the inode behind an `O_PATH` descriptor for reading, so that what was looked at is what is opened.
fn reopen(place: &OwnedFd, path: &Path, inode: (u64, u64)) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let by_descriptor = format!("/proc/self/fd/{}", place.as_raw_fd());
    let open = |path: &Path, more: OFlags| rustix::fs::open(path, flags | more, Mode::empty());
    // Looking must not count as an access; the kernel allows that to the owner and to root.
    let open = |path: &Path| open(path, OFlags::NOATIME).or_else(|_| open(path, OFlags::empty()));
    match open(Path::new(&by_descriptor)) {
        // Only where /proc is not mounted: then by the path, and it must still be the same file.
        Err(Errno::NOENT) => {
            let fd = open(path)?;
            let stat = rustix::fs::fstat(&fd)?;
            if (stat.st_dev, stat.st_ino) == inode { Ok(fd) } else { Err(Errno::STALE) }
        }
        result => result,
    }
}

fn unmappable(file: &File, errno: Errno) -> Error {
    match errno {
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS => {
            Error::failed("map").at(&file.path).because(Errno::OPNOTSUPP).hint("its filesystem keeps no extent maps")
        }
        errno => Error::io("map", &file.path, errno),
    }
}

fn called(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        _ => "a special file",
    }
}
