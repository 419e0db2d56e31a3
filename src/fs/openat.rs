//! Opens what lies below a directory without following any link: directories, however deep they are, and files.

use crate::fs::status::Status;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, Result};
use rustix::path::Arg;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest path of one call: `PATH_MAX` of `linux/limits.h`, its NUL not counted.
const LONGEST: usize = 4095;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory on the way: it may be one that can be passed through but not read.
const WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// For a file: nothing that stands in its place blocks or is taken.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens the directory at `path`, relative to `root`, slashes between the names; `root` itself if the path is empty.
///
/// openat2(2) with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`: a link anywhere on the way is `LOOP`.
pub fn open_dir(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    let path = if path.is_empty() { &b"."[..] } else { path };
    open(root, path, DIRECTORY)
}

/// [`open_dir`] of a directory on the way to another, which need not be readable.
pub(crate) fn open_way(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    open(root, path, WAY)
}

/// Opens a directory by its name in `dir`. A link in its place is not followed (`NOTDIR`).
pub fn open_subdir(dir: impl AsFd, name: impl Arg) -> Result<OwnedFd> {
    rustix::fs::openat(dir, name, DIRECTORY, Mode::empty())
}

/// The same, and the access time stays if possible.
pub fn open_subdir_quietly(dir: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd> {
    without_access(|access| rustix::fs::openat(&dir, name, DIRECTORY | access, Mode::empty()))
}

/// Opens what lies at `path`, relative to `root`, with these flags: no link is followed, whatever the depth.
pub fn open(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let mut rest = path;
    let mut opened: Option<OwnedFd> = None;
    loop {
        let (now, later) = split(rest).ok_or(Errno::NAMETOOLONG)?;
        let from = opened.as_ref().map_or(root, AsFd::as_fd);
        if later.is_empty() {
            return open_step(from, now, flags);
        }
        opened = Some(open_step(from, now, WAY)?);
        rest = later;
    }
}

/// Opens for reading what is, or a moment ago was, a regular file: a pipe in its place does not block, a link is not
/// followed (`LOOP`), and the access time stays where it may. Only the file's owner and root may ask for that.
pub fn open_file(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    without_access(|access| rustix::fs::openat(dir, name, FILE | access, Mode::empty()))
}

/// The same of a path of any depth, relative to `root`.
pub fn open_file_at(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    without_access(|access| open(root, path, FILE | access))
}

/// Opens with a flag that leaves the access time alone, and without it where that is only for the owner and root.
pub fn without_access(open: impl Fn(OFlags) -> Result<OwnedFd>) -> Result<OwnedFd> {
    match open(OFlags::NOATIME) {
        Err(Errno::PERM) => open(OFlags::empty()),
        result => result,
    }
}

/// Whether a path is `above` or lies below it; both are absolute without their leading slash.
pub fn is_below(path: &[u8], above: &[u8]) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// A directory and those above it, by device and inode.
pub fn ancestors(dir: impl AsFd) -> Result<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    let mut here = rustix::io::fcntl_dupfd_cloexec(dir, 0)?;
    loop {
        let status = Status::of(&here)?;
        // The root is its own parent.
        if found.last() == Some(&(status.dev, status.ino)) {
            return Ok(found);
        }
        found.push((status.dev, status.ino));
        here = rustix::fs::openat(&here, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    }
}

fn open_step(from: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(from, path, flags, Mode::empty(), resolve) {
            // A rename elsewhere on the system while `..` was resolved: the manual says to try again.
            Err(Errno::AGAIN) => {}
            result => return result,
        }
    }
}

/// As much of a path as fits one call, and the rest behind the slash.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= LONGEST {
        return Some((path, b""));
    }
    let slash = path[..=LONGEST].iter().rposition(|&byte| byte == b'/')?;
    Some((&path[..slash], &path[slash + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn directories_deeper_than_a_path_can_be_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let name = [b'd'; 200];
        let mut here = root.try_clone().unwrap();
        for _ in 0..100 {
            rustix::fs::mkdirat(&here, &name[..], Mode::RWXU).unwrap();
            here = open_subdir(&here, &name[..]).unwrap();
        }
        let path = vec![&name[..]; 100].join(&b'/');
        let opened = open_dir(root.as_fd(), &path).unwrap();
        assert_eq!(rustix::fs::fstat(&opened).unwrap().st_ino, rustix::fs::fstat(here).unwrap().st_ino);
        open_dir(root.as_fd(), b"").unwrap();
        let file = [&path, &b"/file"[..]].concat();
        assert_eq!(open_file_at(root.as_fd(), &file).unwrap_err(), Errno::NOENT);
        let made = rustix::fs::openat(&opened, "file", OFlags::CREATE | OFlags::RDWR, Mode::RUSR).unwrap();
        let found = open_file_at(root.as_fd(), &file).unwrap();
        assert_eq!(rustix::fs::fstat(found).unwrap().st_ino, rustix::fs::fstat(made).unwrap().st_ino);
    }

    #[test]
    fn no_link_is_followed_and_nothing_above_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        symlink("a", dir.path().join("link")).unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        open_dir(root.as_fd(), b"a/b").unwrap();
        assert_eq!(open_dir(root.as_fd(), b"link/b").unwrap_err(), Errno::LOOP);
        assert!(open_dir(root.as_fd(), b"link").is_err());
        assert_eq!(open_subdir(&root, b"link".as_slice()).unwrap_err(), Errno::NOTDIR);
        assert_eq!(open_dir(root.as_fd(), b"a/../..").unwrap_err(), Errno::XDEV);
    }
}
