//! Directories that are deleted or replaced while a walk reads them.
//!
//! A name that is not found below an open directory usually means that the user has deleted this entry, which is no
//! failure. But perhaps the directory itself was replaced: a new version of a tree was renamed to its path, or a
//! subvolume was deleted and made again. Then the walk has found a part of the old one and nothing of the new one. So
//! the walk remembers each directory with such a name, and looks at their paths when it ends:
//!
//! - The same directory is there: only entries were deleted.
//! - Nothing is there, and the nearest directory above it is the same as before: the directory was deleted or moved.
//! - Another directory is there, or the nearest directory above it is another one: it was replaced, and something is
//!   missing ([`Visitor::torn`]).
//!
//! Sources are always examined. A source that is gone in the end is reported as well: nobody deletes a source while it
//! is read.
//!
//! A number of these directories stay open until the end. The numbers of an open inode are not used again, and they do
//! not change on filesystems that invent them, such as FUSE. Of a directory that was closed on such a filesystem, only
//! the absence is believed.

use super::absolute;
use super::directory::{Directory, Way};
use super::path_node::{Identity, PathNode};
use super::visitor::Visitor;
use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::fs::open_files;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::util::mutex::{self, lock};
use crate::util::path::is_below;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The most directories that are remembered, besides the sources. Later ones are not examined.
const MOST: usize = 1 << 14;

/// The directories that are examined at the end of a walk.
pub(super) struct Meanwhile {
    sources: Mutex<Vec<Source>>,
    suspects: Mutex<Vec<Suspect>>,
    /// How many more of each may stay open.
    open: [AtomicUsize; 2],
}

/// A source that was entered.
struct Source {
    /// Its path, as the walk opened it.
    named: PathBuf,
    /// Its absolute path without the leading slash.
    path: Vec<u8>,
    identity: Identity,
    fd: Option<OwnedFd>,
}

/// A directory with a name that was not found, or a directory that was not found itself.
struct Suspect {
    node: Arc<PathNode>,
    way: Way,
    fd: Option<OwnedFd>,
}

impl Meanwhile {
    pub(super) fn new() -> Meanwhile {
        let open = [0; 2].map(|_| AtomicUsize::new(open_files::part(32, 2..=64)));
        Meanwhile { sources: Mutex::default(), suspects: Mutex::default(), open }
    }

    /// Remembers a source. `named` is its path if that is not its absolute path.
    pub(super) fn entered<P>(&self, source: &Directory<P>, named: Option<PathBuf>) {
        let named = named.unwrap_or_else(|| absolute(&source.path));
        let named = if named.as_os_str().is_empty() { PathBuf::from("/") } else { named };
        let (path, identity, fd) = (source.path.clone(), Identity::of(&source.status), self.hold(0, source));
        lock(&self.sources).push(Source { named, path, identity, fd });
    }

    /// Remembers an open directory with a name that was not found.
    pub(super) fn lacks<P>(&self, directory: &Directory<P>) {
        let fd = self.hold(1, directory);
        self.suspect(directory, Arc::clone(&directory.node), fd);
    }

    /// Remembers a subdirectory that was not found.
    pub(super) fn lacks_directory<P>(&self, above: &Directory<P>, name: &[u8]) {
        self.suspect(above, above.node.child(name), None);
    }

    fn suspect<P>(&self, directory: &Directory<P>, node: Arc<PathNode>, fd: Option<OwnedFd>) {
        // Nobody changes a frozen tree.
        if directory.frozen {
            return;
        }
        let way = (Arc::clone(&directory.reopener.0), directory.reopener.1);
        let mut suspects = lock(&self.suspects);
        if suspects.len() < MOST {
            suspects.push(Suspect { node, way, fd });
        }
    }

    fn hold<P>(&self, number: usize, directory: &Directory<P>) -> Option<OwnedFd> {
        let one_less = |left: usize| left.checked_sub(1);
        self.open[number].fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).ok()?;
        directory.fd.try_clone().ok()
    }

    /// Examines the directories after the walk, and reports those that were replaced or vanished.
    ///
    /// # Errors
    /// An error of the visitor.
    pub(super) fn end<V: Visitor>(self, visitor: &V) -> Result<()> {
        let mut torn = BTreeSet::new();
        for source in mutex::into_inner(self.sources) {
            let why = match source.fate() {
                Fate::Same => continue,
                Fate::Gone => "it vanished while it was read: only the part that was read before is there",
                Fate::Replaced => "it was replaced while it was read; run again",
            };
            torn.insert(source.path.clone());
            visitor.torn(Error::failed("read all of the source").at(absolute(&source.path)).hint(why))?;
        }
        let suspects = mutex::into_inner(self.suspects);
        let replaced: BTreeSet<_> = suspects.iter().filter_map(Suspect::replaced).collect();
        for path in replaced {
            if torn.iter().any(|above| is_below(&path, above)) {
                continue;
            }
            let error = Error::failed("read all of the directory").at(absolute(&path));
            torn.insert(path);
            visitor.torn(error.hint("it was replaced while it was read; run again"))?;
        }
        Ok(())
    }
}

/// What became of a source.
enum Fate {
    Same,
    Gone,
    Replaced,
}

impl Source {
    fn fate(&self) -> Fate {
        let now = match Status::at(rustix::fs::CWD, self.named.as_os_str().as_bytes()) {
            Ok(now) => now,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Fate::Gone,
            // It was there, and nothing proves that it is another one.
            Err(_) => return Fate::Same,
        };
        let is_same = match self.fd.as_ref().map(Status::of) {
            Some(Ok(held)) => Identity::of(&held).is(&now),
            _ => self.identity.is(&now) || !has_stable_numbers_at(&self.named),
        };
        if is_same { Fate::Same } else { Fate::Replaced }
    }
}

impl Suspect {
    /// The highest directory that was replaced, among this one and those above it.
    fn replaced(&self) -> Option<Vec<u8>> {
        let path = self.node.path();
        let (base, _) = self.way.0.near(b"").ok()?;
        let (mut node, mut end, mut replaced) = (Some(&self.node), path.len(), None);
        for levels in 0.. {
            let Some(here) = node.filter(|_| end > self.way.1) else { break };
            let below = &path[self.way.1..end];
            match look(base.as_fd(), below.strip_prefix(b"/").unwrap_or(below)) {
                Ok((now, fd)) => {
                    let is_same = match here.identity() {
                        Some(then) => then.is(&now) || self.is_above(levels, &now),
                        None => now.file_type() != FileType::Directory,
                    };
                    if is_same {
                        break;
                    }
                    if here.identity().is_some() && self.fd.is_none() && !has_stable_numbers(&fd) {
                        return None;
                    }
                    replaced = Some(path[..end].to_vec());
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                // Nothing is known about it.
                Err(_) => return None,
            }
            end = end.saturating_sub(here.name().len() + 1);
            node = here.parent();
        }
        replaced
    }

    /// Whether an inode is this many levels above the open directory.
    fn is_above(&self, levels: usize, now: &Status) -> bool {
        let Some(fd) = &self.fd else { return false };
        let above = match levels {
            0 => Status::of(fd),
            _ => Status::at(fd, &b"../".repeat(levels)),
        };
        above.is_ok_and(|above| Identity::of(&above).is(now))
    }
}

/// The entry that has a path now. No link is followed.
fn look(base: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<(Status, OwnedFd)> {
    let fd = openat::open(base, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
    Ok((Status::of(&fd)?, fd))
}

fn has_stable_numbers(fd: impl AsFd) -> bool {
    Kind::of(fd).is_ok_and(Kind::has_stable_numbers)
}

fn has_stable_numbers_at(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).is_ok_and(has_stable_numbers)
}
