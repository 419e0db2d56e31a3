//! Decides which temporary names belong to living runs. This is the only protocol by which a run finds the remains of a
//! killed run.
//!
//! A run holds a shared lock on each directory in which it has temporary names (flock(2) on the directory's
//! descriptor). The kernel releases the lock when the process ends, whatever its namespace. A run that gets the
//! exclusive lock knows that no other run has temporary names there. Not every network filesystem shows the locks of
//! other hosts. There, names of other kernels are kept until they are a day old.
//!
//! Every [`Temporary`](super::Temporary) and [`StagedDir`](super::StagedDir) announces itself ([`announce`]). Each user
//! has its own prefix and clears only that ([`clear`]):
//!
//! | user | prefix | clears |
//! |---|---|---|
//! | `copy` | `.pleach-copy.` | each directory of the destination, when it is entered; also directories ([`mark`]) |
//! | `restore` | `.pleach-restore.` | each directory of the target, when it is entered |
//! | `put` | `.pleach-put.` | the destination's directory, at the beginning |
//! | `dedupe` | `.pleach-dedupe.` | the directory of its cache, before the cache is replaced |
//! | `verify` | `.pleach-repair.` | nothing: the next run with the repository's lock does (`repository::reopened`) |
//!
//! A snapshot does not use it: nothing below the repository's staging directory has a temporary name, and the
//! repository's lock, also an exclusive flock(2), shows that no other run is alive there.

use super::temporary_name;
use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::fs::status::{Status, Time};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, flock};
use rustix::io::{Errno, Result};
use rustix::path::Arg;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// After this many seconds, a name of another host counts as left by a dead run.
const OLD: i64 = 24 * 60 * 60;
/// How often a lock that another run holds is tried, ten milliseconds apart. Within these five seconds, a run that
/// clears a directory finishes.
const TRIES: usize = 500;

/// Shows other runs that this run has temporary names in a directory, as long as the descriptor is open.
pub(super) fn announce(dir: BorrowedFd<'_>) {
    /// Another process holds a lock for long, so it is not clearing. Waiting again would only take time.
    static IS_HELD: AtomicBool = AtomicBool::new(false);
    for _ in 0..TRIES {
        // A filesystem without locks shows nothing. There, age decides.
        if flock(dir, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK)
            || IS_HELD.load(Ordering::Relaxed)
        {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    IS_HELD.store(true, Ordering::Relaxed);
}

/// Removes temporary names that dead runs left in a directory, except those of directories. Returns their number.
/// Nothing may have been announced through this descriptor.
pub(crate) fn clear(dir: BorrowedFd<'_>, prefix: &str) -> Result<u64> {
    clear_with(dir, prefix, |_| Err(Errno::ISDIR))
}

/// [`clear`], including directories that a run has [marked](mark) as its own.
pub(crate) fn clear_with_directories(dir: BorrowedFd<'_>, prefix: &str) -> Result<u64> {
    clear_with(dir, prefix, |name| match remove_directory(dir, name, is_marked) {
        // The run was killed before it marked the directory. Then it is empty, or else it is not removed.
        Err(Errno::STALE) => rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR),
        removed => removed,
    })
}

/// `remove`: removes a directory.
fn clear_with(dir: BorrowedFd<'_>, prefix: &str, remove: impl Fn(&CStr) -> Result<()>) -> Result<u64> {
    if list(dir, prefix)?.is_empty() {
        return Ok(0);
    }
    let lock = match flock(dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Lock::Exclusive,
        Err(Errno::WOULDBLOCK) => return Ok(0),
        Err(_) => Lock::Unsupported,
    };
    // A living run may have had names there before the lock. The names that exist now belong to no living run.
    let left = list(dir, prefix)?;
    let cleared = left.iter().filter(|(name, file_type)| {
        is_left(dir, name.as_bytes(), prefix, lock)
            && match file_type {
                FileType::Directory => remove(name).is_ok(),
                _ => rustix::fs::unlinkat(dir, name.as_c_str(), AtFlags::empty()).is_ok(),
            }
    });
    let cleared = cleared.count() as u64;
    if lock == Lock::Exclusive {
        let _ = flock(dir, FlockOperation::Unlock);
    }
    Ok(cleared)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// No run of this kernel has announced anything.
    Exclusive,
    /// The filesystem has no locks on directories.
    Unsupported,
}

/// The mode of a directory that has a temporary name. A temporary name alone shows nothing: whoever may rename a
/// directory can give it one. But only its owner can give it this mode, which no other directory has: set-user-id has
/// no meaning for directories.
pub(super) const MARK: u32 = 0o5700;
/// The part of it that mkdir(2) takes.
const MARK_OF_NEW: u32 = 0o1700;

/// Marks a new directory of this process as its own, until it gets its metadata.
pub(super) fn mark(dir: impl AsFd) -> Result<()> {
    rustix::fs::fchmod(dir, Mode::from_raw_mode(MARK))
}

/// Whether a run of this user has marked the directory.
fn is_marked(status: &Status) -> bool {
    status.uid == rustix::process::geteuid().as_raw() && status.permissions() == MARK
}

/// Whether a run that did not end made this directory on the way to entries, and left it without its metadata.
pub(crate) fn is_unfinished(status: &Status) -> bool {
    let (own, user) = (status.permissions(), rustix::process::geteuid());
    matches!(own, MARK | MARK_OF_NEW) && (user.is_root() || status.uid == user.as_raw())
}

/// Removes a directory that has a temporary name, with its files, if it is the expected one. A run creates no
/// directories in it, so if there are any, it belongs to somebody else, and is kept with everything in it.
///
/// # Errors
/// `STALE` if it is another directory.
pub(super) fn remove_directory(
    dir: BorrowedFd<'_>,
    name: impl Arg + Copy,
    is_expected: impl FnOnce(&Status) -> bool,
) -> Result<()> {
    let opened = open_expected(dir, name, is_expected)?;
    for file in files(opened.as_fd())? {
        rustix::fs::unlinkat(&opened, file.as_c_str(), AtFlags::empty())?;
    }
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
}

/// Opens a directory that has a temporary name, if it is the expected one.
///
/// # Errors
/// `STALE` if it is another directory.
pub(super) fn open_expected(
    dir: BorrowedFd<'_>,
    name: impl Arg,
    is_expected: impl FnOnce(&Status) -> bool,
) -> Result<OwnedFd> {
    let opened = openat::open_subdir(dir, name)?;
    if is_expected(&Status::of(&opened)?) { Ok(opened) } else { Err(Errno::STALE) }
}

/// The files in a directory that has a temporary name.
///
/// # Errors
/// `NOTEMPTY` if it contains something else. Errors of listing it.
pub(super) fn files(dir: BorrowedFd<'_>) -> Result<Vec<CString>> {
    let mut files = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        match (entry.file_name().to_bytes(), entry.file_type()) {
            (b"." | b"..", _) => {}
            (_, FileType::RegularFile) => files.push(entry.file_name().to_owned()),
            _ => return Err(Errno::NOTEMPTY),
        }
    }
    Ok(files)
}

/// The temporary names in a directory, with their types.
fn list(dir: BorrowedFd<'_>, prefix: &str) -> Result<Vec<(CString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if temporary_name::is_one(entry.file_name().to_bytes(), prefix) {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

fn is_left(dir: BorrowedFd<'_>, name: &[u8], prefix: &str, lock: Lock) -> bool {
    let is_old = || {
        // The current time by the filesystem's clock, which on a network belongs to another host: the latest change is
        // later than everything else.
        let latest = Status::of(dir).map(|status| status.ctime.max(status.mtime).max(Time::now()));
        let now = latest.unwrap_or_else(|_| Time::now());
        Status::at(dir, name).is_ok_and(|status| status.ctime.seconds + OLD < now.seconds)
    };
    let is_known = lock == Lock::Exclusive
        && !temporary_name::is_of_earlier_version(name, prefix)
        && (temporary_name::is_of_this_boot(name, prefix) || is_local(dir));
    is_known || is_old()
}

/// Whether only this kernel can have the filesystem mounted, judging by its kind.
fn is_local(dir: impl AsFd) -> bool {
    /// vfat, exFAT, F2FS, NTFS3, JFS, ReiserFS, NILFS, UDF.
    const LOCAL: [u64; 8] =
        [0x4d44, 0x2011_bab0, 0xf2f5_2010, 0x7366_746e, 0x3153_464a, 0x5265_4973, 0x3434, 0x1501_3346];
    match Kind::of(dir) {
        Ok(Kind::Xfs | Kind::Btrfs | Kind::Ext4 | Kind::Tmpfs | Kind::Bcachefs | Kind::Zfs) => true,
        Ok(Kind::Other(magic)) => LOCAL.contains(&magic.number()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    const PREFIX: &str = ".pleach-x.";

    #[test]
    fn what_a_living_run_announced_stays_until_it_ends() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (living, cleaner) = (File::open(dir.path()).unwrap(), File::open(dir.path()).unwrap());
        let name = dir.path().join(temporary_name::new(PREFIX));
        announce(living.as_fd());
        fs::write(&name, "half").unwrap();
        assert_eq!(clear(cleaner.as_fd(), PREFIX), Ok(0));
        assert!(name.exists());
        drop(living);
        assert_eq!(clear(cleaner.as_fd(), PREFIX), Ok(1));
        assert!(!name.exists());
    }

    #[test]
    fn other_names_and_those_of_earlier_versions_stay() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let stays = [format!("{PREFIX}1f.0"), format!("{PREFIX}zz.0"), ".pleach-y.0123456789.0".into(), "file".into()];
        stays.iter().for_each(|name| fs::write(dir.path().join(name), "").unwrap());
        let new = || dir.path().join(temporary_name::new(PREFIX));
        fs::write(new(), "").unwrap();
        let (staged, foreign, renamed) = (new(), new(), new());
        for path in [&staged, &foreign, &foreign.join("inner"), &renamed] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("file"), "").unwrap();
        }
        [&staged, &foreign].iter().for_each(|path| mark(File::open(path).unwrap()).unwrap());
        let open = File::open(dir.path()).unwrap();
        assert_eq!(clear(open.as_fd(), PREFIX), Ok(1));
        assert!(staged.exists());
        assert_eq!(clear_with_directories(open.as_fd(), PREFIX), Ok(1));
        assert!(stays.iter().all(|name| dir.path().join(name).exists()));
        assert!(foreign.join("file").exists() && foreign.join("inner/file").exists() && renamed.join("file").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), stays.len() + 2);
    }

    #[test]
    fn a_name_of_another_host_is_left_on_a_filesystem_that_others_may_have_mounted() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (own, foreign) = (temporary_name::new(PREFIX), format!("{PREFIX}0123456789.0"));
        for name in [&own, &foreign] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let open = File::open(dir.path()).unwrap();
        let is_left = |name: &str, lock| is_left(open.as_fd(), name.as_bytes(), PREFIX, lock);
        assert!(is_left(&own, Lock::Exclusive));
        assert_eq!(is_left(&foreign, Lock::Exclusive), is_local(&open));
        assert!(!is_left(&own, Lock::Unsupported) && !is_left(&foreign, Lock::Unsupported));
    }
}
