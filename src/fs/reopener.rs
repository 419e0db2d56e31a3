//! Opens directories again that were closed to save descriptors, wherever they are below a directory: any depth, no link
//! followed, and only the directory that it was before.
//!
//! Whoever comes back up a deep tree asks for one directory after the other, each near the one before. So a few on the way
//! stay open, twice as near each time: to open one again costs little, whatever the depth.

use crate::fs::openat;
use crate::fs::status::Status;
use crate::util::mutex::lock;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

/// So many bytes of a path are opened by one call.
const HOP: usize = 1024;
/// So many directories on the way stay open at most.
const MOST: usize = 19;

/// A directory by device and inode.
pub(crate) type Inode = (u64, u64);

/// Opens directories below one.
#[derive(Debug)]
pub(crate) struct Reopener {
    base: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What was opened last.
    path: Vec<u8>,
    /// Directories on the way to it: how much of the path is theirs.
    anchors: Vec<(usize, OwnedFd)>,
}

impl Reopener {
    /// For what lies below this directory.
    pub(crate) fn new(base: impl AsFd) -> Result<Reopener> {
        Ok(Reopener { base: rustix::io::fcntl_dupfd_cloexec(base, 0)?, state: Mutex::default() })
    }

    /// Opens the directory at `path`, relative to the base.
    ///
    /// # Errors
    /// `STALE` if it is not the one that it was.
    pub(crate) fn open(&self, path: &[u8], inode: Inode) -> Result<OwnedFd> {
        let opened = self.open_any(path)?;
        let status = Status::of(&opened)?;
        if (status.dev, status.ino) == inode { Ok(opened) } else { Err(Errno::STALE) }
    }

    /// [`Reopener::open`] of the directory that is there now, whether or not it was opened before.
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
                        // Whoever goes down leaves one after the other: every second one does as well.
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
