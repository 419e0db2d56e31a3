//! Reopens directories that were closed to save descriptors, at any depth below a directory. No symbolic link is
//! followed, and a different directory at the same path is refused.
//!
//! The way back up a deep tree needs one directory after the other, each close to the last. So a few directories on the
//! path stay open, at distances that halve each time. Reopening is cheap at any depth.

use crate::fs::openat;
use crate::fs::status::Status;
use crate::util::mutex::lock;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

/// The bytes of a path that one call opens.
const HOP: usize = 1024;
/// The most directories on the path that stay open.
const MOST: usize = 19;

/// A directory by device and inode.
pub(crate) type Inode = (u64, u64);

/// Opens directories below a base directory.
#[derive(Debug)]
pub(crate) struct Reopener {
    base: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last opened directory.
    path: Vec<u8>,
    /// Open directories on the path to it, with the length of their part of the path.
    anchors: Vec<(usize, OwnedFd)>,
}

impl Reopener {
    /// A reopener for directories below this one.
    pub(crate) fn new(base: impl AsFd) -> Result<Reopener> {
        Ok(Reopener { base: rustix::io::fcntl_dupfd_cloexec(base, 0)?, state: Mutex::default() })
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
        let mut state = lock(&self.state);
        let shorter = state.path.len().min(path.len());
        let common = match state.path[..shorter] == path[..shorter] {
            true => shorter,
            false => state.path.iter().zip(path).take_while(|(a, b)| a == b).count(),
        };
        let is_above = |length: usize| length <= common && path.get(length).is_none_or(|byte| *byte == b'/');
        while state.anchors.last().is_some_and(|(length, _)| !is_above(*length)) {
            state.anchors.pop();
        }
        let opened = loop {
            let (length, from) =
                state.anchors.last().map_or((0, self.base.as_fd()), |(length, fd)| (*length, fd.as_fd()));
            let begin = if length == 0 { 0 } else { (length + 1).min(path.len()) };
            let middle = begin + (path.len() - begin) / 2;
            let slash = path[begin..middle].iter().rposition(|byte| *byte == b'/').map(|at| begin + at);
            match slash {
                Some(slash) if path.len() - begin > HOP => {
                    let opened = openat::open_way(from, &path[begin..slash])?;
                    state.anchors.push((slash, opened));
                    if state.anchors.len() > MOST {
                        // The way down leaves every directory open: every second one is enough.
                        let mut keep = false;
                        state.anchors.retain(|_| {
                            keep = !keep;
                            keep
                        });
                    }
                }
                _ => break openat::open_dir(from, &path[begin..])?,
            }
        };
        state.path.truncate(common);
        state.path.extend_from_slice(&path[common..]);
        Ok(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;

    #[test]
    fn directories_of_any_depth_are_opened_again_and_none_in_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let inode = |fd: &OwnedFd| Status::of(fd).map(|status| (status.dev, status.ino)).unwrap();
        let (mut here, mut path, mut all) = (root.try_clone().unwrap(), Vec::new(), Vec::new());
        for number in 0..3000 {
            let name = format!("{number:05}");
            rustix::fs::mkdirat(&here, &name, Mode::RWXU).unwrap();
            here = openat::open_subdir(&here, &name).unwrap();
            path.extend_from_slice(if path.is_empty() { b"" } else { b"/" });
            path.extend_from_slice(name.as_bytes());
            all.push((path.clone(), inode(&here)));
        }
        let reopener = Reopener::new(&root).unwrap();
        for (path, inode_then) in all.iter().rev().chain(all.iter().step_by(97)) {
            assert_eq!(inode(&reopener.open(path, *inode_then).unwrap()), *inode_then);
            assert!(lock(&reopener.state).anchors.len() < 20);
        }
        assert_eq!(reopener.open(&all[5].0, all[6].1).unwrap_err(), Errno::STALE);
        assert_eq!(reopener.open(b"", inode(&root)).map(|fd| inode(&fd)).unwrap(), inode(&root));
    }
}
