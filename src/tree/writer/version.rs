//! Which version of an entry may be replaced: the one on which the decision was based. Between that decision and the
//! rename, content is copied and synced. If somebody else saves another version meanwhile, that version is kept.

use super::has_same_content;
use crate::error::Error;
use crate::fs::metadata;
use crate::fs::openat;
use crate::fs::rename;
use crate::fs::status::{Status, Time};
use crate::monitor::Silent;
use rustix::fs::FileType;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often a changed inode is checked before it counts as changed by somebody else.
const TRIES: usize = 3;

/// An entry that is not a directory, at the time when it was examined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: Time,
    ctime: Time,
    has_one_name: bool,
}

impl Version {
    /// The version with this status.
    pub(crate) fn of(status: &Status) -> Version {
        let Status { dev, ino, size, mtime, ctime, nlink, .. } = *status;
        Version { dev, ino, size, mtime, ctime, has_one_name: nlink == 1 }
    }

    /// Whether an inode with this status is still this version.
    ///
    /// The change time of an inode with several names does not count: it changes with each name that is replaced, even
    /// by this run.
    pub(crate) fn is(&self, now: &Status) -> bool {
        let is_counted = self.has_one_name && now.nlink == 1;
        (self.dev, self.ino, self.size, self.mtime) == (now.dev, now.ino, now.size, now.mtime)
            && (self.ctime == now.ctime || !is_counted)
    }

    /// Finds the entry that now has the name of this version. `new` is the entry that will replace it.
    ///
    /// # Errors
    /// `STALE` if the found entry must not be replaced.
    pub(super) fn find(&self, dir: BorrowedFd<'_>, name: &[u8], new: &[u8]) -> Result<Found> {
        for _ in 1..TRIES {
            match self.find_once(dir, name, new) {
                // A rename(2) in progress changes the inode that it replaces before the name changes.
                Err(Errno::STALE)
                    if Status::at(dir, name).is_ok_and(|now| (now.dev, now.ino) == (self.dev, self.ino)) =>
                {
                    rename::wait_for_others(dir);
                    // The other process may be on another host.
                    thread::sleep(Duration::from_millis(10));
                }
                Err(Errno::STALE) => break,
                found => return found,
            }
        }
        self.find_once(dir, name, new)
    }

    fn find_once(&self, dir: BorrowedFd<'_>, name: &[u8], new: &[u8]) -> Result<Found> {
        let now = match Status::at(dir, name) {
            Ok(now) if self.is(&now) => return Ok(Found::Replaceable),
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            now => now?,
        };
        if Status::at(dir, new)?.is_same_inode(&now) {
            return Ok(Found::New);
        }
        if is_equal(dir, (name, &now), new).unwrap_or(false) { Ok(Found::Replaceable) } else { Err(Errno::STALE) }
    }
}

/// The error for an entry that is no longer the version that would be replaced or changed: `STALE`.
pub(crate) fn changed_meanwhile(action: &str, shown: &Path) -> Error {
    let error = Error::failed(action).at(shown).with_code("changed");
    error.hint("somebody else changed or replaced it meanwhile, and it was kept; run again")
}

/// What the name of a version refers to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// That version, or an entry equal to the new one: another run may have put it there.
    Replaceable,
    /// The new inode itself: rename(2) would not remove its other name.
    New,
    /// Nothing.
    Nothing,
}

/// Whether replacing an entry by another would lose nothing: content and metadata are equal.
fn is_equal(dir: BorrowedFd<'_>, (name, status): (&[u8], &Status), other: &[u8]) -> Result<bool> {
    let of = |status: &Status| {
        let Status { mode, uid, gid, size, mtime, rdev, .. } = *status;
        (mode, uid, gid, size, mtime, rdev)
    };
    if of(status) != of(&Status::at(dir, other)?) || metadata::xattrs_at(dir, name)? != metadata::xattrs_at(dir, other)?
    {
        return Ok(false);
    }
    let is_same = match status.file_type() {
        FileType::RegularFile => {
            let (new, there) = (openat::open_file(dir, other)?, openat::open_file(dir, name)?);
            has_same_content(new.as_fd(), there.as_fd(), status.size, &Silent)?
        }
        FileType::Symlink => {
            let read = |name: &[u8]| rustix::fs::readlinkat(dir, name, Vec::new());
            read(name)? == read(other)?
        }
        _ => true,
    };
    // Another run may be giving it more names now.
    Ok(is_same && Version::of(status).is(&Status::at(dir, name)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::writer::Temporary;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::sync::Barrier;
    use std::time::SystemTime;

    const PREFIX: &str = ".pleach-x.";

    /// Replaces `name` with an entry that `make` creates under a temporary name. Calls `meddle` before the replacement.
    fn replace(dir: &Path, name: &str, make: impl Fn(&Path), meddle: impl Fn(&Path)) -> Result<()> {
        let open = File::open(dir).unwrap();
        let version = Version::of(&Status::at(&open, name.as_bytes()).unwrap());
        let made = Temporary::make(open.as_fd(), PREFIX, |name| {
            make(&dir.join(name));
            Ok(())
        });
        meddle(&dir.join(name));
        made.unwrap().0.put(name.as_bytes(), Some(&version))
    }

    #[test]
    fn only_what_was_seen_is_replaced() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("name");
        let tick = || thread::sleep(Duration::from_millis(10));
        let set = |content: &'static str| move |path: &Path| fs::write(path, content).unwrap();
        fs::write(&path, "old").unwrap();
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        // Another name of the inode is removed meanwhile.
        tick();
        replace(dir.path(), "name", set("new"), |_| fs::remove_file(dir.path().join("other")).unwrap()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        tick();
        let renamed = |path: &Path| {
            fs::write(dir.path().join("editor's"), "mine").unwrap();
            fs::rename(dir.path().join("editor's"), path).unwrap();
        };
        assert_eq!(replace(dir.path(), "name", set("newer"), renamed), Err(Errno::STALE));
        assert_eq!(replace(dir.path(), "name", set("newer"), set("same")), Err(Errno::STALE));
        assert_eq!(fs::read(&path).unwrap(), b"same");
        replace(dir.path(), "name", set("newest"), |path| fs::remove_file(path).unwrap()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"newest");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn two_runs_that_replace_an_entry_by_equal_ones_at_once_both_succeed() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let together = Barrier::new(2);
        fs::write(dir.path().join("name"), "old").unwrap();
        let run = || {
            for round in 0..200 {
                let make = |path: &Path| {
                    fs::write(path, format!("round {round}")).unwrap();
                    let made = File::options().write(true).open(path).unwrap();
                    made.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(round)).unwrap();
                };
                together.wait();
                replace(dir.path(), "name", make, |_| _ = together.wait()).unwrap();
            }
        };
        thread::scope(|scope| {
            scope.spawn(run);
            scope.spawn(run);
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_another_run_has_put_there_is_replaced_by_its_equal() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("name");
        let file = |content: &'static str| {
            move |path: &Path| {
                let _ = fs::remove_file(path);
                fs::write(path, content).unwrap();
                File::options().write(true).open(path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
            }
        };
        fs::write(&path, "old").unwrap();
        replace(dir.path(), "name", file("new"), file("new")).unwrap();
        assert_eq!(replace(dir.path(), "name", file("new"), file("wen")), Err(Errno::STALE));
        assert_eq!(fs::read(&path).unwrap(), b"wen");
        let link_to_new = |path: &Path| {
            let new = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).find(|other| other != path);
            fs::remove_file(path).unwrap();
            fs::hard_link(new.unwrap(), path).unwrap();
        };
        replace(dir.path(), "name", file("new"), link_to_new).unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read_dir(dir.path()).unwrap().count()), (b"new".to_vec(), 1));
        fs::remove_file(&path).unwrap();
        symlink("old", &path).unwrap();
        let link = |path: &Path| {
            let _ = fs::remove_file(path);
            symlink("mine", path).unwrap();
        };
        assert_eq!(replace(dir.path(), "name", |path| symlink("new", path).unwrap(), link), Err(Errno::STALE));
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("mine"));
    }
}
