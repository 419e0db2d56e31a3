//! What killed runs left of snapshots in the making: set aside while a new run takes finished files over, then deleted.
//! None of it ever becomes a snapshot.

use super::blocks::BLOCKS;
use super::dir::os;
use super::{Dir, Repository, Staging};
use crate::error::{Error, Result};
use crate::fs::rename;
use crate::tree::deletion;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

/// The list of finished files of a snapshot in the making.
pub(super) const FINISHED: &str = "finished";
/// Begins the names of what was set aside. No snapshot's name begins so.
const ASIDE: &str = ".killed-";
/// How many leftovers a run makes use of: the newest.
const MOST: usize = 4;

/// What a killed run left.
#[derive(Debug)]
pub struct Leftover {
    /// Its tree.
    pub tree: OwnedFd,
    /// Its list of finished files.
    pub finished: File,
    /// Its lists of hashes, if it has any.
    pub(crate) blocks: Option<Dir>,
    name: String,
}

impl Staging {
    /// Makes the list of finished files.
    pub fn create_finished(&self) -> Result<File> {
        self.dir.file(FINISHED, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)
    }
}

/// All of this needs the repository's lock.
impl Repository {
    /// What killed runs left and may be of use, newest first. It stays until the leftovers are cleared without it.
    pub fn leftovers(&self) -> Result<Vec<Leftover>> {
        let partial = self.partial()?;
        let mut found = Vec::new();
        for name in partial.names()? {
            if partial.has_dir(os(&name))?
                && let Some(parts) = Parts::of(&partial.dir(os(&name))?)
            {
                let modified = parts.finished.metadata().and_then(|metadata| metadata.modified()).ok();
                found.push((modified, name, parts));
            }
        }
        found.sort_by(|(a, ..), (b, ..)| b.cmp(a));
        found.truncate(MOST);
        let mut leftovers = Vec::new();
        for (_, name, Parts { tree, finished, blocks }) in found {
            if deletion::mount_at(partial.as_fd(), &name).is_some() {
                // Moving it would move the mount. Clearing the leftovers reports it.
                continue;
            }
            let name = set_aside(&partial, &name)?;
            leftovers.push(Leftover { tree, finished, blocks, name });
        }
        Ok(leftovers)
    }
}

impl Leftover {
    /// Whether it has this name in the directory of snapshots in the making.
    pub(super) fn is_named(&self, name: &[u8]) -> bool {
        self.name.as_bytes() == name
    }
}

/// What of a leftover is of use.
struct Parts {
    tree: OwnedFd,
    finished: File,
    blocks: Option<Dir>,
}

impl Parts {
    /// What is in its directory; `None` without a tree and a list of finished files.
    fn of(dir: &Dir) -> Option<Parts> {
        let finished = dir.file(FINISHED, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).ok()?;
        finished.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(())?;
        Some(Parts { tree: dir.dir("tree").ok()?.into(), finished, blocks: dir.dir(BLOCKS).ok() })
    }
}

/// Gives it a name that no new snapshot can want.
fn set_aside(partial: &Dir, name: &[u8]) -> Result<String> {
    if let Some(name) = std::str::from_utf8(name).ok().filter(|name| name.starts_with(ASIDE)) {
        return Ok(name.to_string());
    }
    let mut number = 0_u64;
    loop {
        let aside = format!("{ASIDE}{number}");
        match rename::without_replacing(partial, name, partial, aside.as_str()) {
            Ok(()) => return Ok(aside),
            Err(Errno::EXIST) => number += 1,
            Err(errno) => return Err(Error::io("set aside", partial.join(os(name)), errno)),
        }
    }
}
