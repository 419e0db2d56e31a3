//! Opens directories and files below a directory, at any depth, without following symbolic links.

use crate::fs::status::Status;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, openat2};
use rustix::io::{Errno, Result};
use rustix::path::Arg;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest path of one call: `PATH_MAX` of `linux/limits.h` without the NUL byte.
const LONGEST: usize = 4095;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Flags for a directory on the path, which may be searchable but not readable.
const WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Flags for a file. A pipe or terminal in its place does not block and is not acquired.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens the directory at `path`, relative to `root`, with slashes between names. An empty path is `root` itself.
///
/// openat2(2) with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`: a symbolic link in the path fails with `LOOP`.
pub(crate) fn open_dir(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    let path = if path.is_empty() { &b"."[..] } else { path };
    open(root, path, DIRECTORY)
}

/// Like [`open_dir`], for a directory on the path to another. It need not be readable.
pub(crate) fn open_way(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    open(root, path, WAY)
}

/// Opens a directory by its name in `dir`. A symbolic link is not followed (`NOTDIR`).
pub(crate) fn open_subdir(dir: impl AsFd, name: impl Arg) -> Result<OwnedFd> {
    rustix::fs::openat(dir, name, DIRECTORY, Mode::empty())
}

/// The same, without changing the access time if possible.
pub(crate) fn open_subdir_quietly(dir: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd> {
    without_access(|access| rustix::fs::openat(&dir, name, DIRECTORY | access, Mode::empty()))
}

/// Opens `path`, relative to `root`, with these flags. No symbolic link is followed at any depth.
pub(crate) fn open(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
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

/// Opens a regular file for reading. If something else replaced it meanwhile, a pipe does not block and a symbolic link
/// is not followed (`LOOP`). The access time does not change if this process is root or the owner.
pub(crate) fn open_file(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    without_access(|access| rustix::fs::openat(dir, name, FILE | access, Mode::empty()))
}

/// The same for a path of any depth, relative to `root`.
pub(crate) fn open_file_at(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    without_access(|access| open(root, path, FILE | access))
}

/// [`open_file`] in a tree that may come from elsewhere. A device or a pipe in place of the file is not opened, because
/// that can have effects. Whoever can change the tree at this moment is trusted not to do so.
///
/// # Errors
/// `LOOP` if it is not a regular file, as with a symbolic link.
pub(crate) fn open_regular(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if is_regular(&stat) { open_file(dir, name) } else { Err(Errno::LOOP) }
}

/// The same for a path of any depth, relative to `root`.
pub(crate) fn open_regular_at(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    let node = open(root, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
    if is_regular(&rustix::fs::fstat(node)?) { open_file_at(root, path) } else { Err(Errno::LOOP) }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Opens with `O_NOATIME`, and without it if only the owner and root may use it.
pub(crate) fn without_access(open: impl Fn(OFlags) -> Result<OwnedFd>) -> Result<OwnedFd> {
    match open(OFlags::NOATIME) {
        Err(Errno::PERM) => open(OFlags::empty()),
        result => result,
    }
}

/// A directory and its ancestors, by device and inode.
pub(crate) fn ancestors(dir: impl AsFd) -> Result<Vec<(u64, u64)>> {
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
    retrying(|| openat2(from, path, flags, Mode::empty(), resolve))
}

/// Repeats openat2(2) if a rename elsewhere disturbed it, as its manual says. A few times only: while another process
/// has a lease of the file, opening it fails in the same way.
pub(crate) fn retrying(open: impl Fn() -> Result<OwnedFd>) -> Result<OwnedFd> {
    let is_final = |opened: &Result<OwnedFd>| !matches!(opened, Err(Errno::AGAIN));
    (0..100).map(|_| open()).find(is_final).unwrap_or(Err(Errno::AGAIN))
}

/// The part of a path that fits one call, and the rest behind the slash.
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

    #[test]
    fn only_regular_files_are_opened_in_a_tree_from_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        std::fs::write(dir.path().join("file"), b"").unwrap();
        rustix::fs::mknodat(&root, "pipe", FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        let open = |name: &[u8]| open_regular(root.as_fd(), name).and(open_regular_at(root.as_fd(), name)).err();
        assert_eq!(open(b"file"), None);
        assert_eq!(
            (open(b"pipe"), open(b"link"), open(b".")),
            (Some(Errno::LOOP), Some(Errno::LOOP), Some(Errno::LOOP))
        );
        assert_eq!(open(b"none"), Some(Errno::NOENT));
        // A pipe that nobody writes to can be opened: it was not.
        assert!(open_file(root.as_fd(), b"pipe").is_ok());
    }
}
