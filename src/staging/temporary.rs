//! Entries under temporary names, until they are put in their place.

use super::{liveness, temporary_name};
use crate::rename;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Calls `make` with temporary names until one is free.
pub(crate) fn under_temporary_name<T>(prefix: &str, mut make: impl FnMut(&str) -> Result<T>) -> Result<(String, T)> {
    loop {
        let name = temporary_name::new(prefix);
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Moves what has a temporary name to its own. Without `replaces` nothing that has come there meanwhile is replaced (`EXIST`).
pub(crate) fn put(dir: BorrowedFd<'_>, temporary: &str, name: &[u8], replaces: bool) -> Result<()> {
    if replaces {
        return rustix::fs::renameat(dir, temporary, dir, name);
    }
    rename::without_replacing(dir, temporary, dir, name)
}

/// An entry under a temporary name. It is gone when this is dropped before it was put in its place.
#[derive(Debug)]
pub(crate) struct Temporary<D: AsFd> {
    dir: D,
    /// Empty: it is in its place.
    name: String,
}

impl<D: AsFd> Temporary<D> {
    /// Makes an entry of a directory under a temporary name. Other runs know it for a living run's for as long as the
    /// directory's descriptor is open.
    pub(crate) fn make<T>(dir: D, prefix: &str, make: impl FnMut(&str) -> Result<T>) -> Result<(Temporary<D>, T)> {
        liveness::announce(dir.as_fd());
        under_temporary_name(prefix, make).map(|(name, made)| (Temporary { dir, name }, made))
    }

    /// The same entry, named by another descriptor of its directory.
    pub(crate) fn within<E: AsFd>(mut self, dir: E) -> Temporary<E> {
        Temporary { dir, name: std::mem::take(&mut self.name) }
    }

    /// Its temporary name.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Moves it to its own name, as [`put`] does.
    pub(crate) fn put(mut self, name: &[u8], replaces: bool) -> Result<()> {
        put(self.dir.as_fd(), &self.name, name, replaces)?;
        self.name.clear();
        Ok(())
    }
}

impl<'d> Temporary<BorrowedFd<'d>> {
    /// Makes an empty file, to be written and read by its owner alone.
    pub(crate) fn file(dir: BorrowedFd<'d>, prefix: &str) -> Result<(Self, OwnedFd)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Temporary::make(dir, prefix, |name| rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR))
    }
}

impl<D: AsFd> Drop for Temporary<D> {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // If it cannot be removed the next run clears it.
            let _ = rustix::fs::unlinkat(&self.dir, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Whether this is a temporary name.
pub(crate) fn is_temporary(name: &[u8], prefix: &str) -> bool {
    temporary_name::is_one(name, prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::AsFd;

    #[test]
    fn what_is_not_put_in_its_place_is_gone_and_nothing_is_replaced_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let open = File::open(dir.path()).unwrap();
        let make = || Temporary::file(open.as_fd(), ".pleach-x.").unwrap().0;
        drop(make());
        fs::write(dir.path().join("there"), "old").unwrap();
        assert_eq!(make().put(b"there", false), Err(Errno::EXIST));
        make().put(b"new", false).unwrap();
        make().put(b"there", true).unwrap();
        assert_eq!(fs::read(dir.path().join("there")).unwrap(), b"");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
