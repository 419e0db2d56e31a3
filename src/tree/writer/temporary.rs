//! Entries under temporary names, until they get their own. `liveness` decides which of them belong to living runs.

use super::version::Found;
use super::{Version, liveness, temporary_name};
use crate::fs::rename;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Calls `make` with temporary names until one is unused.
pub(super) fn under_temporary_name<T>(prefix: &str, mut make: impl FnMut(&str) -> Result<T>) -> Result<(String, T)> {
    loop {
        let name = temporary_name::new(prefix);
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// An entry under a temporary name. If this is dropped before the entry is put in its place, the entry is deleted.
#[derive(Debug)]
pub(crate) struct Temporary<D: AsFd> {
    dir: D,
    /// Empty: the entry is in its place.
    name: String,
}

impl<D: AsFd> Temporary<D> {
    /// Creates an entry of a directory under a temporary name. Other runs know that it belongs to a living run as long
    /// as the directory's descriptor is open.
    pub(crate) fn make<T>(dir: D, prefix: &str, make: impl FnMut(&str) -> Result<T>) -> Result<(Temporary<D>, T)> {
        liveness::announce(dir.as_fd());
        under_temporary_name(prefix, make).map(|(name, made)| (Temporary { dir, name }, made))
    }

    /// The same entry, by another descriptor of its directory.
    fn within<E: AsFd>(mut self, dir: E) -> Temporary<E> {
        Temporary { dir, name: std::mem::take(&mut self.name) }
    }

    /// Its temporary name.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Moves it to its own name, in place of this version of another entry.
    ///
    /// # Errors
    /// `STALE` if something else is there now, and `EXIST` if something is there although nothing was expected. In both
    /// cases the existing entry is kept.
    pub(crate) fn put(self, name: &[u8], replaces: Option<&Version>) -> Result<()> {
        let found = match replaces {
            Some(version) => version.find(self.dir.as_fd(), name, self.name())?,
            None => Found::Nothing,
        };
        self.put_over(name, found)
    }

    fn put_over(mut self, name: &[u8], found: Found) -> Result<()> {
        let (dir, temporary) = (self.dir.as_fd(), self.name.as_str());
        match found {
            // Another run may have just linked the same inode there. Then rename(2) does nothing and succeeds. The
            // temporary name is removed if it still exists.
            Found::Replaceable => return rustix::fs::renameat(dir, temporary, dir, name),
            Found::Nothing => rename::without_replacing(dir, temporary, dir, name)?,
            // Only the temporary name is removed.
            Found::New => return Ok(()),
        }
        self.name.clear();
        Ok(())
    }
}

impl<'d> Temporary<BorrowedFd<'d>> {
    /// Creates an empty file that only its owner may read and write.
    pub(crate) fn file(dir: BorrowedFd<'d>, prefix: &str) -> Result<(Self, OwnedFd)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Temporary::make(dir, prefix, |name| rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR))
    }
}

impl<D: AsFd> Drop for Temporary<D> {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // If it cannot be removed, the next run clears it.
            let _ = rustix::fs::unlinkat(&self.dir, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// An entry under a temporary name that will replace another after the next sync.
#[derive(Debug)]
pub(crate) struct Replacing {
    temporary: Temporary<Arc<OwnedFd>>,
    name: Vec<u8>,
    version: Version,
}

impl Replacing {
    /// Such an entry of the directory `dir`, which will get the name of this version of another entry.
    pub(crate) fn new<D: AsFd>(
        temporary: Temporary<D>,
        dir: &Arc<OwnedFd>,
        name: &[u8],
        version: Version,
    ) -> Replacing {
        Replacing { temporary: temporary.within(Arc::clone(dir)), name: name.to_vec(), version }
    }

    /// Its temporary name.
    pub(crate) fn temporary_name(&self) -> &[u8] {
        self.temporary.name()
    }

    /// Moves it to its own name.
    ///
    /// # Errors
    /// See [`Temporary::put`].
    pub(crate) fn put(self) -> Result<()> {
        self.temporary.put(&self.name, Some(&self.version))
    }
}

/// Whether this is a temporary name.
pub(crate) fn is_temporary(name: &[u8], prefix: &str) -> bool {
    temporary_name::is_one(name, prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::status::Status;
    use std::fs::{self, File};
    use std::os::fd::AsFd;

    #[test]
    fn what_is_not_put_in_its_place_is_gone_and_nothing_is_replaced_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let open = File::open(dir.path()).unwrap();
        let make = || Temporary::file(open.as_fd(), ".pleach-x.").unwrap().0;
        drop(make());
        fs::write(dir.path().join("there"), "old").unwrap();
        assert_eq!(make().put(b"there", None), Err(Errno::EXIST));
        make().put(b"new", None).unwrap();
        let there = Version::of(&Status::at(&open, b"there").unwrap());
        make().put(b"there", Some(&there)).unwrap();
        assert_eq!(fs::read(dir.path().join("there")).unwrap(), b"");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_inode_that_got_the_name_a_moment_ago_keeps_no_temporary_name() {
        let dir = tempfile::tempdir().unwrap();
        let open = File::open(dir.path()).unwrap();
        let (temporary, _) = Temporary::file(open.as_fd(), ".pleach-x.").unwrap();
        fs::hard_link(dir.path().join(&temporary.name), dir.path().join("there")).unwrap();
        temporary.put_over(b"there", Found::Replaceable).unwrap();
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["there"]);
    }
}
