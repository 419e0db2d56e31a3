//! Keeps a snapshot that is being read from being removed: flock(2) on its manifest, shared by readers, exclusive for
//! removal. The lock ends with its process, in whatever way.

use super::dir::Dir;
use crate::error::{Error, Result};
use crate::fs::mounts;
use crate::fs::open_files::is_exhausted;
use rustix::fs::{self, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;

/// A snapshot that no other process reads, until this is dropped.
pub(super) struct Claim {
    pub(super) name: String,
    /// `None` if the manifest cannot be opened: then nobody else can read it either.
    file: Option<File>,
}

impl Claim {
    /// Keeps readers away from a snapshot; `None` if another process reads it.
    ///
    /// # Errors
    /// If it cannot be locked, or this process lacks memory or descriptors: then others may read the manifest.
    pub(super) fn take(manifests: &Dir, name: &str) -> Result<Option<Claim>> {
        let name = name.to_string();
        let file = match manifests.file(&name, OFlags::RDONLY, Mode::empty()) {
            Ok(file) => file,
            Err(error) if error.raw_os_error().map(Errno::from_raw_os_error).is_some_and(is_exhausted) => {
                return Err(error);
            }
            Err(_) => return Ok(Some(Claim { name, file: None })),
        };
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            Ok(()) => Ok(Some(Claim { name, file: Some(file) })),
            Err(errno) if has_no_locks(errno) => Ok(Some(Claim { name, file: None })),
            Err(errno) => Err(Error::io("lock", manifests.join(&name), errno)),
        }
    }
}

impl Drop for Claim {
    /// Closing the file is not enough: see the repository's lock.
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = fs::flock(file, FlockOperation::Unlock);
        }
    }
}

/// Marks a manifest as being read, until the file is closed. Waits while its snapshot is being removed.
///
/// # Errors
/// If the snapshot was removed meanwhile.
pub(super) fn note_reader(file: &File, manifests: &Dir, name: &str) -> Result<()> {
    let failed = |errno| Error::io("open", manifests.join(name), errno);
    match fs::flock(file, FlockOperation::LockShared) {
        Ok(()) => {}
        Err(errno) if has_no_locks(errno) => {}
        Err(errno) => return Err(failed(errno)),
    }
    if fs::fstat(file).map_err(failed)?.st_nlink == 0 {
        return Err(failed(Errno::NOENT).hint("the snapshot was just removed"));
    }
    Ok(())
}

/// Whether a process has marked a manifest as being read, according to `/proc/locks`. Taking a lock to find out could
/// turn away a removal. The kernel does not list the locks of processes outside this pid namespace.
pub(super) fn has_reader(manifests: &Dir, name: &str) -> bool {
    let Ok(Some(stat)) = manifests.stat(name) else { return false };
    let mounts = mounts::of(manifests).unwrap_or_default();
    let (Some(mount), Ok(locks)) = (mounts.first(), std::fs::read_to_string("/proc/locks")) else { return false };
    locks.lines().any(|line| is_reader(line, &mount.device, stat.st_ino))
}

/// Whether a line of `/proc/locks` is a shared flock(2) of this inode: `1: FLOCK  ADVISORY  READ 123 fd:00:99 0 EOF`.
/// `device` is decimal there and hexadecimal here. A waiting lock has an arrow behind the number.
fn is_reader(line: &str, device: &str, inode: u64) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let is_shared = (words.next(), words.nth(1)) == (Some("FLOCK"), Some("READ"));
    let mut numbers = words.nth(1).unwrap_or_default().splitn(3, ':');
    let mut hexadecimal = || u64::from_str_radix(numbers.next()?, 16).ok();
    let found = hexadecimal().zip(hexadecimal()).map(|(major, minor)| format!("{major}:{minor}"));
    is_shared && found.as_deref() == Some(device) && numbers.next() == Some(inode.to_string().as_str())
}

/// Whether an error of flock(2) means that the filesystem has no locks. NFS has none for a file that is open for
/// reading only (`BADF`).
fn has_no_locks(errno: Errno) -> bool {
    matches!(errno, Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL | Errno::BADF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_lock_of_the_file_is_a_reader() {
        let is = |line| is_reader(line, "253:10", 99);
        assert!(is("1: FLOCK  ADVISORY  READ 123 fd:0a:99 0 EOF"));
        for other in [
            "1: FLOCK  ADVISORY  WRITE 123 fd:0a:99 0 EOF",
            "1: POSIX  ADVISORY  READ 123 fd:0a:99 0 EOF",
            "1: -> FLOCK  ADVISORY  READ 123 fd:0a:99 0 EOF",
            "1: FLOCK  ADVISORY  READ 123 fd:0b:99 0 EOF",
            "1: FLOCK  ADVISORY  READ 123 fd:0a:9 0 EOF",
            "1: FLOCK",
            "",
        ] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn looking_for_readers_takes_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("one"), "").unwrap();
        let manifests = Dir::open(dir.path()).unwrap();
        assert!(!has_reader(&manifests, "one") && !has_reader(&manifests, "missing"));
        // A removal in progress is not a reader, and is not disturbed.
        let claim = Claim::take(&manifests, "one").unwrap().unwrap();
        assert!(!has_reader(&manifests, "one"));
        drop(claim);
        let reader = manifests.file("one", OFlags::RDONLY, Mode::empty()).unwrap();
        note_reader(&reader, &manifests, "one").unwrap();
        assert!(Claim::take(&manifests, "one").unwrap().is_none());
    }
}
