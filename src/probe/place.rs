//! The examined directory, and test files in it: unnamed, or removed before they are used.

use crate::error::{Error, Result};
use crate::fs::filesystem::{self, Kind};
use crate::fs::mounts::{self, Mount};
use crate::fs::pread;
use rustix::fs::{AtFlags, Mode, OFlags, StatVfs};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The size of test content: more than Btrfs stores inline, and a whole number of blocks everywhere.
pub(super) const LENGTH: u64 = 64 << 10;

/// A directory on the filesystem in question.
pub(super) struct Place {
    fd: OwnedFd,
    path: PathBuf,
    pub(super) kind: Kind,
    pub(super) space: StatVfs,
    /// `None` if the system does not show it.
    pub(super) mount: Option<Mount>,
    unwritable: Cell<Option<Errno>>,
}

impl Place {
    /// Opens the directory, or the directory of a file.
    pub(super) fn open(path: &Path) -> Result<Place> {
        let open = |path: &Path, flags: OFlags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
        let failed = |errno: Errno| Error::io("open", path, errno);
        let directory = match open(path, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(_) => path.to_path_buf(),
            Err(Errno::NOTDIR) => {
                // The file itself is not opened, since it may be a pipe. A path through a file is invalid.
                open(path, OFlags::PATH).map_err(failed)?;
                directory_of(path).map_err(|error| Error::io("find the directory of", path, error))?
            }
            Err(errno) => return Err(failed(errno)),
        };
        let failed = |errno: Errno| Error::io("query the filesystem of", &directory, errno);
        let fd = open(&directory, OFlags::RDONLY | OFlags::DIRECTORY)
            .or_else(|_| open(&directory, OFlags::PATH | OFlags::DIRECTORY))
            .map_err(failed)?;
        let kind = Kind::of(&fd).map_err(failed)?;
        let space = rustix::fs::fstatvfs(&fd).map_err(failed)?;
        let mount = mounts::of(&fd).ok().and_then(|mounts| mounts.into_iter().next());
        Ok(Place { fd, path: directory, kind, space, mount, unwritable: Cell::new(None) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Why no test file could be created, if one was needed.
    pub(super) fn unwritable(&self) -> Option<Errno> {
        self.unwritable.get()
    }

    /// Creates an empty file without a name. It disappears when it is closed.
    pub(super) fn file(&self) -> rustix::io::Result<OwnedFd> {
        let made = match filesystem::unnamed(&self.fd) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => self.removed_file(),
            made => made,
        };
        made.inspect_err(|errno| self.unwritable.set(Some(*errno)))
    }

    /// Creates a file with [`LENGTH`] bytes of content.
    pub(super) fn filled(&self) -> rustix::io::Result<OwnedFd> {
        let file = self.file()?;
        fill(&file, 0).inspect_err(|errno| self.unwritable.set(Some(*errno)))?;
        Ok(file)
    }

    /// Creates a file on a filesystem without unnamed files: its name is removed at once.
    fn removed_file(&self) -> rustix::io::Result<OwnedFd> {
        let name = format!(".pleach-probe-{}", rustix::process::getpid().as_raw_nonzero());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, &*name, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::unlinkat(&self.fd, &*name, AtFlags::empty())?;
        Ok(file)
    }
}

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The directory of a file, also of the target of a symbolic link.
fn directory_of(path: &Path) -> std::io::Result<PathBuf> {
    let path = if path.is_symlink() { path.canonicalize()? } else { path.to_path_buf() };
    Ok(match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    })
}

/// Writes [`LENGTH`] bytes at `offset`, which neither compress nor repeat.
pub(super) fn fill(file: &OwnedFd, offset: u64) -> rustix::io::Result<()> {
    pread::write_all(file, &noise(LENGTH as usize), offset)
}

/// Bytes that neither compress nor repeat, the same ones each time.
pub(super) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut content = Vec::with_capacity(length.next_multiple_of(8));
    while content.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend_from_slice(&state.to_le_bytes());
    }
    content.truncate(length);
    content
}

/// Opens the same file again, for reading only.
pub(super) fn read_only(file: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(&*path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_files_need_names_they_lose_them_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::open(dir.path()).unwrap();
        let files = [place.removed_file().unwrap(), place.removed_file().unwrap()];
        files.iter().for_each(|file| fill(file, 0).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(rustix::fs::fstat(&files[0]).unwrap().st_nlink, 0);
    }
}
