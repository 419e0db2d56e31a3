//! Opens directories at any depth below a base directory without resolving a long path each time: directories that were
//! closed to save descriptors, or those of files that are opened in any order. No symbolic link is followed.
//!
//! Resolving each directory of a deep chain from the base takes the square of the chain's length. So a few directories
//! on the used paths stay open. They are added in the middle of a path that is too long, at distances that halve each
//! time: this suits a way down, a way back up and jumps between both. Short paths need neither them nor a lock.

use crate::fs::open_files;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::util::mutex::lock;
use crate::util::path::is_below;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// A path with more names than this is shortened by an open directory.
const LONG: usize = 64;
/// The number of directories that stay open, at most. More are useful only in trees deeper than [`LONG`] times this.
const MOST: usize = 64;

/// A directory by device and inode.
pub(crate) type Inode = (u64, u64);

/// Opens directories below a base directory.
#[derive(Debug)]
pub(crate) struct Reopener {
    base: Arc<OwnedFd>,
    /// The directories that stay open. Those on the path that was used last are at the end.
    anchors: Mutex<Vec<Anchor>>,
    most: usize,
}

/// An open directory, and its path from the base.
#[derive(Debug)]
struct Anchor {
    path: Vec<u8>,
    fd: Arc<OwnedFd>,
}

impl Reopener {
    /// A reopener for directories below this one.
    pub(crate) fn new(base: impl AsFd) -> Result<Reopener> {
        let base = Arc::new(rustix::io::fcntl_dupfd_cloexec(base, 0)?);
        Ok(Reopener { base, anchors: Mutex::default(), most: open_files::part(32, 1..=MOST) })
    }

    /// Opens the directory at `path`, relative to the base.
    ///
    /// # Errors
    /// `STALE` if it is another directory than before.
    pub(crate) fn open(&self, path: &[u8], inode: Inode) -> Result<OwnedFd> {
        let opened = self.open_any(path)?;
        let status = Status::of(&opened)?;
        if (status.dev, status.ino) == inode { Ok(opened) } else { Err(Errno::STALE) }
    }

    /// Like [`Reopener::open`], for whichever directory is there now.
    pub(crate) fn open_any(&self, path: &[u8]) -> Result<OwnedFd> {
        let (from, rest) = self.near(path)?;
        openat::open_dir(from.as_fd(), rest)
    }

    /// An open directory on the way to `path`, or the directory at `path` itself, and the rest of the path from there.
    /// The rest is short.
    pub(crate) fn near<'p>(&self, path: &'p [u8]) -> Result<(Arc<OwnedFd>, &'p [u8])> {
        if middle(path).is_none() {
            return Ok((Arc::clone(&self.base), path));
        }
        let (mut from, mut rest) = self.nearest(path);
        while let Some(slash) = middle(rest) {
            // Not under the lock: other threads open directories at the same time.
            from = Arc::new(openat::open_way(from.as_fd(), &rest[..slash])?);
            rest = &rest[slash + 1..];
            self.keep(&path[..path.len() - rest.len() - 1], &from);
        }
        Ok((from, rest))
    }

    /// The nearest anchor on the way to `path`, and the rest of the path from there.
    fn nearest<'p>(&self, path: &'p [u8]) -> (Arc<OwnedFd>, &'p [u8]) {
        let mut anchors = lock(&self.anchors);
        let all = std::mem::take(&mut *anchors).into_iter();
        let (on_path, mut in_order): (Vec<_>, Vec<_>) = all.partition(|anchor| is_below(path, &anchor.path));
        let nearest = match on_path.iter().max_by_key(|anchor| anchor.path.len()) {
            Some(anchor) => (Arc::clone(&anchor.fd), path.get(anchor.path.len() + 1..).unwrap_or_default()),
            None => (Arc::clone(&self.base), path),
        };
        in_order.extend(on_path);
        *anchors = in_order;
        nearest
    }

    fn keep(&self, path: &[u8], fd: &Arc<OwnedFd>) {
        let mut anchors = lock(&self.anchors);
        anchors.push(Anchor { path: path.to_vec(), fd: Arc::clone(fd) });
        if anchors.len() > self.most {
            anchors.remove(0);
        }
    }
}

/// The slash in the middle of a path that is too long.
fn middle(path: &[u8]) -> Option<usize> {
    let slashes = path.iter().filter(|byte| **byte == b'/').count();
    let mut slash = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    if slashes < LONG { None } else { slash.nth(slashes / 2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    /// A chain of directories with names of this many digits: each with its path and inode.
    fn chain(top: &OwnedFd, levels: usize, digits: usize) -> Vec<(Vec<u8>, Inode)> {
        let (mut here, mut path) = (top.try_clone().unwrap(), Vec::new());
        let level = |number: usize| {
            let name = format!("{number:0digits$}");
            rustix::fs::mkdirat(&here, &name, Mode::RWXU).unwrap();
            here = openat::open_subdir(&here, &name).unwrap();
            path.extend_from_slice(if path.is_empty() { b"" } else { b"/" });
            path.extend_from_slice(name.as_bytes());
            (path.clone(), inode(&here))
        };
        (0..levels).map(level).collect()
    }

    fn inode(fd: &OwnedFd) -> Inode {
        Status::of(fd).map(|status| (status.dev, status.ino)).unwrap()
    }

    #[test]
    fn directories_of_any_depth_are_opened_again_and_none_in_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let all = chain(&root, 3000, 5);
        let reopener = Reopener::new(&root).unwrap();
        for (path, inode_then) in all.iter().rev().chain(all.iter().step_by(97)) {
            assert_eq!(inode(&reopener.open(path, *inode_then).unwrap()), *inode_then);
            assert!(lock(&reopener.anchors).len() <= reopener.most);
        }
        assert_eq!(reopener.open(&all[5].0, all[6].1).unwrap_err(), Errno::STALE);
        assert_eq!(reopener.open(b"", inode(&root)).map(|fd| inode(&fd)).unwrap(), inode(&root));
    }

    #[test]
    fn no_file_of_a_deep_chain_is_opened_by_a_long_path() {
        const DEPTH: usize = 9 * LONG;
        let top = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let root: OwnedFd = std::fs::File::open(top.path()).unwrap().into();
        let directories = chain(&root, DEPTH, 1);
        let reopener = Reopener::new(&root).unwrap();
        let mut files = Vec::new();
        for (path, inode_then) in &directories {
            let create = OFlags::CREATE | OFlags::RDONLY;
            let dir = reopener.open(path, *inode_then).unwrap();
            files.push(inode(&rustix::fs::openat(dir, c"file", create, Mode::RUSR).unwrap()));
        }
        // From both ends in turn, an order that no walk would use.
        let reopener = Reopener::new(&root).unwrap();
        for at in (0..DEPTH).map(|at| if at % 2 == 0 { at / 2 } else { DEPTH - 1 - at / 2 }) {
            let path = [&directories[at].0, &b"/file"[..]].concat();
            let (near, rest) = reopener.near(&path).unwrap();
            assert!(rest.iter().filter(|byte| **byte == b'/').count() < LONG);
            assert_eq!(inode(&openat::open_file_at(near.as_fd(), rest).unwrap()), files[at]);
        }
        let open = lock(&reopener.anchors).len();
        assert!((1..=reopener.most).contains(&open), "{open}");
    }

    #[test]
    fn several_threads_reopen_directories_of_one_chain() {
        let dir = tempfile::tempdir().unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let all = chain(&root, 1000, 3);
        let reopener = Reopener::new(&root).unwrap();
        std::thread::scope(|scope| {
            for begin in [0, 317, 618, 999] {
                let (all, reopener) = (&all, &reopener);
                scope.spawn(move || {
                    for step in 0..all.len() {
                        let (path, inode_then) = &all[(begin + step * 7) % all.len()];
                        assert_eq!(inode(&reopener.open(path, *inode_then).unwrap()), *inode_then);
                    }
                });
            }
        });
        assert!(lock(&reopener.anchors).len() <= reopener.most);
    }
}
