//! Temporary names: `PREFIX` PID `.` NUMBER, both in hexadecimal, so that a later run knows whose they were.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, Result};
use rustix::process::{Pid, test_kill_process};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `make` with temporary names until one is free: an earlier run with our process id may have left some.
pub(crate) fn under_temporary_name<T>(prefix: &str, mut make: impl FnMut(&str) -> Result<T>) -> Result<(String, T)> {
    loop {
        let name = temporary_name(prefix);
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// A temporary name that this process has not used.
fn temporary_name(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{:x}.{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Moves what has a temporary name to its own. Without `replaces` nothing that has come there meanwhile is replaced (`EXIST`).
pub(crate) fn put(dir: BorrowedFd<'_>, temporary: &str, name: &[u8], replaces: bool) -> Result<()> {
    if replaces {
        return rustix::fs::renameat(dir, temporary, dir, name);
    }
    match rustix::fs::renameat_with(dir, temporary, dir, name, RenameFlags::NOREPLACE) {
        // Some filesystems do not know the flag.
        Err(Errno::INVAL | Errno::NOSYS) => match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => rustix::fs::renameat(dir, temporary, dir, name),
            Err(errno) => Err(errno),
        },
        result => result,
    }
}

/// An entry under a temporary name. It is gone when this is dropped before it was put in its place.
#[derive(Debug)]
pub(crate) struct Temporary<'d> {
    dir: BorrowedFd<'d>,
    /// Empty: it is in its place.
    name: String,
}

impl<'d> Temporary<'d> {
    /// Makes an entry of a directory under a temporary name.
    pub(crate) fn make<T>(
        dir: BorrowedFd<'d>,
        prefix: &str,
        make: impl FnMut(&str) -> Result<T>,
    ) -> Result<(Temporary<'d>, T)> {
        under_temporary_name(prefix, make).map(|(name, made)| (Temporary { dir, name }, made))
    }

    /// Makes an empty file, to be written and read by its owner alone.
    pub(crate) fn file(dir: BorrowedFd<'d>, prefix: &str) -> Result<(Temporary<'d>, OwnedFd)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Temporary::make(dir, prefix, |name| rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR))
    }

    /// Its temporary name.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Moves it to its own name, as [`put`] does.
    pub(crate) fn put(mut self, name: &[u8], replaces: bool) -> Result<()> {
        put(self.dir, &self.name, name, replaces)?;
        self.name.clear();
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // If it cannot be removed the next run clears it.
            let _ = rustix::fs::unlinkat(self.dir, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Removes from a directory what runs that are dead left under temporary names. How many there were.
pub(crate) fn clear(dir: BorrowedFd<'_>, prefix: &str) -> Result<u64> {
    let mut cleared = 0;
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type() != FileType::Directory
            && is_left(name.to_bytes(), prefix)
            && rustix::fs::unlinkat(dir, name, AtFlags::empty()).is_ok()
        {
            cleared += 1;
        }
    }
    Ok(cleared)
}

/// Whether this is a temporary name.
pub(crate) fn is_temporary(name: &[u8], prefix: &str) -> bool {
    process(name, prefix).is_some()
}

/// Of which process a temporary name is, in its digits; `None` if it is none.
fn process<'n>(name: &'n [u8], prefix: &str) -> Option<&'n str> {
    let rest = std::str::from_utf8(name.strip_prefix(prefix.as_bytes())?).ok()?;
    let (pid, number) = rest.split_once('.')?;
    let is_hexadecimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hexadecimal(pid) && is_hexadecimal(number)).then_some(pid)
}

/// Whether this is a temporary name of a process that has ended.
fn is_left(name: &[u8], prefix: &str) -> bool {
    let pid = process(name, prefix).and_then(|pid| i32::from_str_radix(pid, 16).ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::AsFd;

    #[test]
    fn only_what_dead_processes_left_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let own = std::process::id();
        let left = format!(".pleach-x.{:x}.0", dead.id());
        let stays = [format!(".pleach-x.{own:x}.0"), ".pleach-x.zz.0".into(), format!(".pleach-y.{:x}.0", dead.id())];
        for name in stays.iter().chain([&left]) {
            File::create(dir.path().join(name)).unwrap();
        }
        let open = File::open(dir.path()).unwrap();
        assert_eq!(clear(open.as_fd(), ".pleach-x."), Ok(1));
        assert!(!dir.path().join(left).exists());
        assert!(stays.iter().all(|name| dir.path().join(name).exists()));
    }

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
