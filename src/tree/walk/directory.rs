//! A directory that is being visited, and how it is opened: by its name in its parent, without following a link, or as
//! the directory that replaces it.

use super::path_node::PathNode;
use super::stand_ins::StandIns;
use crate::fs::openat;
use crate::fs::reopener::Reopener;
use crate::fs::status::Status;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

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
    /// The visitor's data.
    pub place: P,
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

    pub(super) fn with<Q>(self, place: Q) -> Directory<Q> {
        let Directory { fd, path, status, scaffold, top, node, reopener, .. } = self;
        Directory { fd, path, status, scaffold, top, node, reopener, place }
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
    let way = (above.node.child(name), &above.reopener);
    open(path, scaffold, above.top, stand_ins, Some(way), open_at)
}

fn open(
    path: &[u8],
    scaffold: bool,
    top: usize,
    stand_ins: &StandIns,
    way: Option<(Arc<PathNode>, &Way)>,
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
    let made = |fd: OwnedFd, status, is_elsewhere: bool| {
        let (node, reopener) = match way {
            Some((node, reopener)) if !is_elsewhere => (node, (Arc::clone(&reopener.0), reopener.1)),
            Some((node, _)) => (node, (Arc::new(Reopener::new(&fd)?), path.len())),
            None => (PathNode::top(path), (Arc::new(Reopener::new(&fd)?), path.len())),
        };
        Ok(Directory { fd, path: path.to_vec(), status, scaffold, top, node, reopener, place: () })
    };
    match stand_ins.living_instead(path, &fd, status.ino, flags | OFlags::NOFOLLOW | OFlags::RDONLY) {
        Some(living) => {
            let fd = living?;
            let status = Status::of(&fd)?;
            made(fd, status, true)
        }
        None => made(fd, status, is_elsewhere.get()),
    }
}
