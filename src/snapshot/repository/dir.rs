//! A directory by its descriptor, with a path for messages.

use crate::error::{Error, ErrorKind, Result};
use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::fs::shutdown;
use crate::sys::btrfs::logical::EMPTY_SUBVOLUME;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Dir> for OwnedFd {
    fn from(dir: Dir) -> OwnedFd {
        dir.fd
    }
}

impl Dir {
    /// Opens the directory at a path that the user gave: links on the way are followed.
    pub(crate) fn open(path: &Path) -> rustix::io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir { fd: fs::open(path, flags, Mode::empty())?, path: path.to_path_buf() })
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of an entry, for messages.
    pub(crate) fn join(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(Path::new(name.as_ref()))
    }

    /// Opens a directory in this one.
    pub(crate) fn dir(&self, name: impl AsRef<OsStr>) -> Result<Dir> {
        let name = name.as_ref();
        match openat::open_subdir(&self.fd, name) {
            Ok(fd) => Ok(Dir { fd, path: self.join(name) }),
            Err(errno) => Err(Error::io("open the directory", self.join(name), errno)),
        }
    }

    /// Makes a private directory in this one, for its owner only and without inherited defaults, and opens it. An
    /// existing directory is opened unchanged.
    pub(crate) fn make_dir(&self, name: impl AsRef<OsStr>) -> Result<Dir> {
        let name = name.as_ref();
        match fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => {
                let dir = self.dir(name)?;
                dir.make_private()?;
                Ok(dir)
            }
            Err(Errno::EXIST) => self.dir(name),
            Err(errno) => Err(Error::io("make the directory", self.join(name), errno)),
        }
    }

    /// Sets mode 0700 and removes access control lists, both its own and the one for new entries.
    pub(crate) fn make_private(&self) -> Result<()> {
        let fail = |errno| Error::io("set the mode of", &self.path, errno);
        for list in ["system.posix_acl_default", "system.posix_acl_access"] {
            match fs::fremovexattr(&self.fd, list) {
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        fs::fchmod(&self.fd, Mode::RWXU).map_err(fail)
    }

    /// Opens a regular file in this directory. Never waits for anything else that may be in its place. A file with
    /// other names is not opened for writing: they may be outside of the repository.
    pub(crate) fn file(&self, name: impl AsRef<OsStr>, flags: OFlags, mode: Mode) -> Result<File> {
        let name = name.as_ref();
        let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let failed = |errno| Error::io("open", self.join(name), errno);
        let damage = |what| {
            let cause = io::Error::new(io::ErrorKind::InvalidData, what);
            Error::new(ErrorKind::Damage, "open").at(self.join(name)).because(cause)
        };
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        let check = |stat: &Stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if writes && stat.st_nlink > 1 => {
                Err(damage("it is a hard link to another file").hint("replace it by a copy"))
            }
            FileType::RegularFile => Ok(()),
            _ => Err(damage("it is not a regular file")),
        };
        // Opening a device can have effects.
        if let Some(stat) = self.stat(name)? {
            check(&stat)?;
        }
        let file = fs::openat(&self.fd, name, flags | careful, mode).map_err(failed)?;
        check(&fs::fstat(&file).map_err(failed)?)?;
        Ok(file.into())
    }

    /// Makes a new private file with this content. If it cannot be written, no file is left.
    pub(super) fn write_new(&self, name: &str, content: impl AsRef<[u8]>) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = self.file(name, flags, Mode::RUSR | Mode::WUSR)?;
        match file.write_all(content.as_ref()) {
            Ok(()) => Ok(file),
            Err(cause) => {
                // The first error matters more.
                let _ = self.unlink(name);
                Err(Error::io("write", self.join(name), cause))
            }
        }
    }

    /// Renames a file over another one. If it cannot be renamed, it is removed.
    pub(super) fn replace(&self, new: &str, name: &str) -> Result<()> {
        fs::renameat(&self.fd, new, &self.fd, name).map_err(|errno| {
            let _ = self.unlink(new);
            Error::io("replace", self.join(name), errno)
        })
    }

    /// The status of an entry; links are not followed. `None` if there is no entry.
    pub(crate) fn stat(&self, name: impl AsRef<OsStr>) -> Result<Option<Stat>> {
        let name = name.as_ref();
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::io("read the status of", self.join(name), errno)),
        }
    }

    /// Opens a directory in it; `None` if there is none that can be opened.
    pub(super) fn dir_if_any(&self, name: &str) -> Option<Dir> {
        self.has_dir(name).ok().filter(|has| *has)?;
        self.dir(name).ok()
    }

    /// Whether an entry is a directory, and not a link to one.
    pub(crate) fn has_dir(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        Ok(self.stat(name)?.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory))
    }

    /// Whether an entry is a directory that can be the tree of a snapshot. A snapshot of a Btrfs subvolume has an empty
    /// directory in place of each subvolume in that, and so of each tree.
    pub(crate) fn has_tree(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let Some(stat) = self.stat(name)? else { return Ok(false) };
        let is_placeholder = || stat.st_ino == EMPTY_SUBVOLUME && Kind::of(&self.fd) == Ok(Kind::Btrfs);
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory && !is_placeholder())
    }

    /// Calls `each` with every entry except `.` and `..`, in no order.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&CStr, FileType) -> Result<()>) -> Result<()> {
        let fail = |errno| Error::io("read the directory", &self.path, errno);
        for entry in fs::Dir::read_from(&self.fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                each(entry.file_name(), entry.file_type())?;
            }
        }
        Ok(())
    }

    /// The names of all entries. For directories that hold few.
    pub(crate) fn names(&self) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        self.for_each(|name, _| {
            names.push(name.to_bytes().to_vec());
            Ok(())
        })?;
        names.sort();
        Ok(names)
    }

    /// Removes an entry that is not a directory. It may already be gone.
    pub(crate) fn unlink(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let name = name.as_ref();
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io("remove", self.join(name), errno)),
        }
    }

    /// Writes the directory's own changes to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        shutdown::sync_directory(&self.fd).map_err(|errno| Error::io("sync", &self.path, errno))
    }
}

/// Bytes as a name.
pub(crate) fn os(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}
