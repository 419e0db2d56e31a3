//! A regular file that gets its name when it is complete.
//!
//! If the filesystem supports unnamed files, it has no name until then (`O_TMPFILE`, and linkat(2) at the end): a
//! killed run leaves nothing, and no temporary name is created and removed. A file that replaces another has a
//! temporary name, because only rename(2) replaces. In a directory that has a temporary name itself
//! ([`StagedDir`](super::StagedDir)), a file has its own name from the start.

use super::{Replacing, Temporary, Version};
use crate::fs::filesystem;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Result;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;

/// The permissions of a file that only its owner may use.
const PRIVATE: u32 = 0o600;

/// Such a file, open for reading and writing. If this is dropped before the file is put in its place, the file is
/// deleted.
#[derive(Debug)]
pub(crate) struct TempFile<'d> {
    dir: BorrowedFd<'d>,
    file: OwnedFd,
    replaces: Option<Version>,
    name: Name<'d>,
    created: u32,
}

/// The name of a file until it is put in its place.
#[derive(Debug)]
enum Name<'d> {
    None,
    Temporary(Temporary<BorrowedFd<'d>>),
    Own(Unfinished<'d>),
}

/// A file with its own name in a directory that has a temporary name. If this is dropped before the file is complete,
/// the file is deleted.
#[derive(Debug)]
struct Unfinished<'d> {
    dir: BorrowedFd<'d>,
    /// Empty: the file is complete.
    name: Vec<u8>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // If it cannot be deleted, nothing else can be written there either.
            let _ = rustix::fs::unlinkat(self.dir, &*self.name, AtFlags::empty());
        }
    }
}

impl<'d> TempFile<'d> {
    /// Creates an empty file in a directory. Only its owner may read and write it. `replaces`: the version that has its
    /// name until then.
    pub(crate) fn make(dir: BorrowedFd<'d>, prefix: &str, replaces: Option<Version>) -> Result<TempFile<'d>> {
        if replaces.is_none()
            && let Some(file) = unnamed(dir, PRIVATE)
        {
            return Ok(TempFile { dir, file, replaces, name: Name::None, created: PRIVATE });
        }
        let (temporary, file) = Temporary::file(dir, prefix)?;
        Ok(TempFile { dir, file, replaces, name: Name::Temporary(temporary), created: PRIVATE })
    }

    /// The same for a file that replaces nothing, in a directory that only this user may enter, so that the file can
    /// have its final permissions, except those of umask(2), from the start.
    pub(super) fn make_in_private(dir: BorrowedFd<'d>, prefix: &str, permissions: u32) -> Result<TempFile<'d>> {
        match unnamed(dir, permissions) {
            Some(file) => Ok(TempFile { dir, file, replaces: None, name: Name::None, created: permissions }),
            None => TempFile::make(dir, prefix, None),
        }
    }

    /// The same with its own name from the start, for a directory that has a temporary name.
    pub(super) fn make_in_staged(dir: BorrowedFd<'d>, name: &[u8], permissions: u32) -> Result<TempFile<'d>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(permissions))?;
        let name = Name::Own(Unfinished { dir, name: name.to_vec() });
        Ok(TempFile { dir, file, replaces: None, name, created: permissions })
    }

    /// The permissions that it was created with. umask(2) may have removed some.
    pub(super) fn created(&self) -> u32 {
        self.created
    }

    /// Gives the file its name. Returns the file.
    ///
    /// # Errors
    /// An entry that was created there meanwhile is not replaced: see [`Temporary::put`].
    pub(crate) fn put(self, name: &[u8]) -> Result<OwnedFd> {
        match self.name {
            Name::Temporary(temporary) => temporary.put(name, self.replaces.as_ref())?,
            Name::None => link(&self.file, self.dir, name)?,
            Name::Own(mut unfinished) => unfinished.name.clear(),
        }
        Ok(self.file)
    }

    /// For a file that must not replace another before its data is on the disk: prepares giving it this name later, in
    /// the same directory.
    pub(super) fn postpone(self, dir: &Arc<OwnedFd>, name: &[u8]) -> Postponed<'d> {
        match (self.name, self.replaces) {
            (Name::Temporary(temporary), Some(version)) => {
                Postponed::Replaces(self.file, Replacing::new(temporary, dir, name, version))
            }
            (name, replaces) => Postponed::IsNew(TempFile { name, replaces, ..self }),
        }
    }
}

/// When a file gets its name.
pub(super) enum Postponed<'d> {
    /// Later: the file, and the replacement to do.
    Replaces(OwnedFd, Replacing),
    /// At once, because it replaces nothing.
    IsNew(TempFile<'d>),
}

impl AsFd for TempFile<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// An unnamed file that can get a name. `None`: not supported here. After an error, creating a file with a name fails
/// with the same error.
fn unnamed(dir: BorrowedFd<'_>, permissions: u32) -> Option<OwnedFd> {
    static CAN_BE_LINKED: OnceLock<bool> = OnceLock::new();
    if !CAN_BE_LINKED.get_or_init(|| Path::new("/proc/self/fd").exists()) {
        return None;
    }
    filesystem::unnamed_yet(dir, Mode::from_raw_mode(permissions)).ok()
}

/// Gives an unnamed file a name.
fn link(file: &OwnedFd, dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    // Since Linux 6.10 this works for one's own files; before, it needs CAP_DAC_READ_SEARCH. By the name in procfs it
    // always works.
    rustix::fs::linkat(file, c"", dir, name, AtFlags::EMPTY_PATH).or_else(|_| {
        rustix::fs::linkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), dir, name, AtFlags::SYMLINK_FOLLOW)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::status::Status;
    use std::fs::{self, File};
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn it_has_no_name_before_it_is_put_in_its_place_unless_it_replaces() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let open = File::open(dir.path()).unwrap();
        let count = || fs::read_dir(dir.path()).unwrap().count();
        let aside = TempFile::make(open.as_fd(), ".pleach-x.", None).unwrap();
        assert_eq!(count(), 0);
        rustix::io::write(&aside, b"new").unwrap();
        aside.put(b"name").unwrap();
        assert_eq!(fs::read(dir.path().join("name")).unwrap(), b"new");
        drop(TempFile::make(open.as_fd(), ".pleach-x.", None).unwrap());
        let version = Version::of(&Status::at(&open, b"name").unwrap());
        let aside = TempFile::make(open.as_fd(), ".pleach-x.", Some(version)).unwrap();
        assert_eq!(count(), 2);
        let file = aside.put(b"name").unwrap();
        let there = fs::metadata(dir.path().join("name")).unwrap();
        assert_eq!((there.ino(), there.len()), (File::from(file).metadata().unwrap().ino(), 0));
        drop(TempFile::make(open.as_fd(), ".pleach-x.", Some(version)).unwrap());
        assert_eq!(count(), 1);
    }

    #[test]
    fn nothing_is_replaced_unasked() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let open = File::open(dir.path()).unwrap();
        fs::write(dir.path().join("name"), "old").unwrap();
        let aside = TempFile::make(open.as_fd(), ".pleach-x.", None).unwrap();
        assert_eq!(aside.put(b"name").unwrap_err(), rustix::io::Errno::EXIST);
        assert_eq!(fs::read(dir.path().join("name")).unwrap(), b"old");
    }
}
