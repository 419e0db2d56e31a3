//! A regular file that gets its name when it is complete.
//!
//! If the filesystem supports unnamed files, it has no name until then (`O_TMPFILE`, and linkat(2) at the end): a
//! killed run leaves nothing, and no temporary name is created and removed. A file that replaces another has a
//! temporary name, because only rename(2) replaces.

use super::{Replacing, Temporary, Version};
use crate::fs::filesystem;
use rustix::fs::{AtFlags, CWD};
use rustix::io::Result;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;

/// Such a file, open for reading and writing. If this is dropped before the file is put in its place, the file is
/// deleted.
#[derive(Debug)]
pub(crate) struct TempFile<'d> {
    dir: BorrowedFd<'d>,
    file: OwnedFd,
    replaces: Option<Version>,
    /// `None`: it has no name.
    temporary: Option<Temporary<BorrowedFd<'d>>>,
}

impl<'d> TempFile<'d> {
    /// Creates an empty file in a directory. Only its owner may read and write it. `replaces`: the version that has its
    /// name until then.
    pub(crate) fn make(dir: BorrowedFd<'d>, prefix: &str, replaces: Option<Version>) -> Result<TempFile<'d>> {
        if replaces.is_none()
            && let Some(file) = unnamed(dir)
        {
            return Ok(TempFile { dir, file, replaces, temporary: None });
        }
        let (temporary, file) = Temporary::file(dir, prefix)?;
        Ok(TempFile { dir, file, replaces, temporary: Some(temporary) })
    }

    /// Gives the file its name. Returns the file.
    ///
    /// # Errors
    /// An entry that was created there meanwhile is not replaced: see [`Temporary::put`].
    pub(crate) fn put(self, name: &[u8]) -> Result<OwnedFd> {
        match self.temporary {
            Some(temporary) => temporary.put(name, self.replaces.as_ref())?,
            None => link(&self.file, self.dir, name)?,
        }
        Ok(self.file)
    }

    /// For a file that must not replace another before its data is on the disk: prepares giving it this name later, in
    /// the same directory.
    pub(super) fn postpone(self, dir: &Arc<OwnedFd>, name: &[u8]) -> Postponed<'d> {
        match (self.temporary, self.replaces) {
            (Some(temporary), Some(version)) => {
                Postponed::Replaces(self.file, Replacing::new(temporary, dir, name, version))
            }
            (temporary, replaces) => Postponed::IsNew(TempFile { temporary, replaces, ..self }),
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
fn unnamed(dir: BorrowedFd<'_>) -> Option<OwnedFd> {
    static CAN_BE_LINKED: OnceLock<bool> = OnceLock::new();
    if !CAN_BE_LINKED.get_or_init(|| Path::new("/proc/self/fd").exists()) {
        return None;
    }
    filesystem::unnamed_yet(dir).ok()
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
