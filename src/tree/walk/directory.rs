//! A directory that is being visited, and how it is opened: by its name in its parent, without following a link, or as
//! the directory that replaces it.

use super::path_node::{Identity, PathNode};
use super::stand_ins::StandIns;
use crate::fs::openat;
use crate::fs::reopener::Reopener;
use crate::fs::status::Status;
use crate::util::mutex::lock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Reopens a directory, and the length of the part of its path that leads to the reopener's base.
pub(super) type Way = (Arc<Reopener>, usize);

/// A directory that is being visited.
#[derive(Debug)]
pub(crate) struct Directory<P> {
    /// The directory itself, open.
    pub fd: OwnedFd,
    /// Its absolute path without the leading slash; empty for the root.
    pub path: Vec<u8>,
    /// Its status when it was opened.
    pub status: Status,
    /// It is only on the path to a source.
    pub scaffold: bool,
    /// The number of the top directory, among those where the walk began, from which it was reached.
    pub top: usize,
    /// Its path, which shares names with other paths.
    pub(super) node: Arc<PathNode>,
    /// Reopens it, given the part of its path after this many bytes.
    pub(super) reopener: Way,
    /// It lies in a frozen copy of a tree, which is read in place of the live one.
    pub(super) frozen: bool,
    /// The live directory in place of the placeholder in a frozen copy.
    pub(super) is_living: bool,
    /// Names that were listed and not found later.
    pub(super) missing: Missing,
    /// The visitor's data.
    pub place: P,
}

/// Whether names in a directory were listed and not found later.
#[derive(Debug, Default)]
pub(super) struct Missing {
    has_some: AtomicBool,
    /// Only of a directory on the path to sources: there each name is a source.
    names: Mutex<Vec<Vec<u8>>>,
    is_known: AtomicBool,
}

impl Missing {
    /// Whether there is one, on the first call after it was noted.
    pub(super) fn is_new(&self) -> bool {
        self.has_some.load(Ordering::Relaxed) && !self.is_known.swap(true, Ordering::Relaxed)
    }

    pub(super) fn take_names(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut lock(&self.names))
    }
}

impl<P> Directory<P> {
    /// The path of an entry.
    pub(crate) fn join(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    /// Its last component.
    pub(crate) fn name(&self) -> &[u8] {
        self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Notes that a listed name was not found. This is not a failure of the entry, which was deleted. But perhaps the
    /// whole directory was replaced, which the walk finds out (`meanwhile`).
    pub(crate) fn note_missing(&self, name: &[u8]) {
        self.missing.has_some.store(true, Ordering::Relaxed);
        if self.scaffold {
            lock(&self.missing.names).push(name.to_vec());
        }
    }

    pub(super) fn with<Q>(self, place: Q) -> Directory<Q> {
        let Directory { fd, path, status, scaffold, top, node, reopener, frozen, is_living, missing, .. } = self;
        Directory { fd, path, status, scaffold, top, node, reopener, frozen, is_living, missing, place }
    }
}

/// Opens a directory where the walk begins. `scaffold`: it is only on the path to a source.
pub(super) fn open_top(
    named: &Path,
    follow: bool,
    path: &[u8],
    (scaffold, top): (bool, usize),
    stand_ins: &StandIns,
) -> rustix::io::Result<Directory<()>> {
    let named = if named.as_os_str().is_empty() { Path::new("/") } else { named };
    let own = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    open(path, scaffold, top, stand_ins, None, |flags| rustix::fs::open(named, flags | own, Mode::empty()))
}

/// Opens a directory by its name in its parent. A link in its place is not followed.
pub(super) fn open_below<P>(
    above: &Directory<P>,
    name: &[u8],
    path: &[u8],
    scaffold: bool,
    stand_ins: &StandIns,
) -> rustix::io::Result<Directory<()>> {
    let open_at = |flags| rustix::fs::openat(&above.fd, name, flags | OFlags::NOFOLLOW, Mode::empty());
    let below = Below { node: &above.node, name, way: &above.reopener, frozen: above.frozen };
    open(path, scaffold, above.top, stand_ins, Some(below), open_at)
}

/// The place of a directory in its parent.
struct Below<'a> {
    node: &'a Arc<PathNode>,
    name: &'a [u8],
    way: &'a Way,
    frozen: bool,
}

/// Why a directory is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// It has its name in its parent.
    Named,
    /// It replaces another one.
    StandIn,
    /// It replaces the placeholder in a frozen copy.
    Living,
}

fn open(
    path: &[u8],
    scaffold: bool,
    top: usize,
    stand_ins: &StandIns,
    below: Option<Below<'_>>,
    open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>,
) -> rustix::io::Result<Directory<()>> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let is_elsewhere = Cell::new(false);
    let open = |how| match stand_ins.open(path, flags | OFlags::NOFOLLOW | how) {
        Some(stand_in) => {
            is_elsewhere.set(true);
            stand_in
        }
        None => open(flags | how),
    };
    let fd = match openat::without_access(|access| open(OFlags::RDONLY | access)) {
        // A directory on the path only needs to be searchable.
        Err(Errno::ACCESS) if scaffold => open(OFlags::PATH),
        result => result,
    }?;
    let status = Status::of(&fd)?;
    // If another directory replaces this one, everything below it is reopened relative to the replacement.
    let made = |fd: OwnedFd, status, origin: Origin| {
        let (parent, name) = below.as_ref().map_or((None, path), |below| (Some(below.node), below.name));
        let node = PathNode::new(parent, name, Some(Identity::of(&status)));
        let reopener = match &below {
            Some(below) if origin == Origin::Named => (Arc::clone(&below.way.0), below.way.1),
            _ => (Arc::new(Reopener::new(&fd)?), path.len()),
        };
        let frozen = match origin {
            Origin::Named => below.as_ref().is_some_and(|below| below.frozen),
            Origin::StandIn => true,
            Origin::Living => false,
        };
        let (path, is_living, missing) = (path.to_vec(), origin == Origin::Living, Missing::default());
        Ok(Directory { fd, path, status, scaffold, top, node, reopener, frozen, is_living, missing, place: () })
    };
    match stand_ins.living_instead(path, &fd, status.ino, flags | OFlags::NOFOLLOW | OFlags::RDONLY) {
        Some(living) => {
            let fd = living?;
            let status = Status::of(&fd)?;
            made(fd, status, Origin::Living)
        }
        None => made(fd, status, if is_elsewhere.get() { Origin::StandIn } else { Origin::Named }),
    }
}
