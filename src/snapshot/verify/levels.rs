//! The directories of one snapshot from its top to the current one, and how many entries each has: so that entries
//! without a record are found, although names are compared only where the numbers differ.

use super::compare;
use super::context::Context;
use crate::error::ErrorKind;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::{Amount, Fault};
use crate::snapshot::manifest::Directory;
use crate::util::path::{is_below, join, split};
use rustix::fs::Dir;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An open directory of a snapshot's tree.
pub(super) struct Place {
    pub(super) fd: OwnedFd,
    account: Arc<Account>,
}

/// The entries of a directory that have a record and are not in the tree.
#[derive(Default)]
struct Account {
    missing: AtomicU64,
}

impl Place {
    /// Counts an entry that the tree does not have.
    pub(super) fn misses(&self) {
        self.account.missing.fetch_add(1, Ordering::Relaxed);
    }
}

/// A directory that the run has left.
pub(super) struct Ending {
    snapshot: usize,
    path: Vec<u8>,
    /// Its entries in the tree.
    present: u64,
    /// Its records in the manifest.
    listed: u64,
    account: Arc<Account>,
}

struct Level {
    /// The length of its path, which is the beginning of the current path.
    length: usize,
    /// `None`: it could not be opened, or is too far up to be held open.
    place: Option<Arc<Place>>,
    account: Arc<Account>,
    /// `None`: the entries are not compared, because records were lost.
    present: Option<u64>,
    listed: u64,
}

/// The directories on the path of one snapshot.
pub(super) struct Levels {
    snapshot: usize,
    path: Vec<u8>,
    stack: Vec<Level>,
    /// How many of them are held open.
    nearest: usize,
    /// A directory that cannot be opened; everything in it is skipped.
    skipped: Option<Vec<u8>>,
}

impl Levels {
    pub(super) fn new(snapshot: usize, nearest: usize) -> Levels {
        Levels { snapshot, path: Vec::new(), stack: Vec::new(), nearest, skipped: None }
    }

    /// Records of the manifest were lost: the open directories may have more entries than are known.
    pub(super) fn lost(&mut self) {
        self.stack.iter_mut().for_each(|level| level.present = None);
    }

    /// Enters a directory, after leaving those that are not above it.
    pub(super) fn enter(&mut self, context: &Context<'_>, record: &Directory, left: &mut Vec<Ending>) {
        let path = &record.path;
        self.ascend(path, left);
        if self.is_skipped(path) {
            return;
        }
        self.skipped = None;
        if let Some(parent) = self.parent(path) {
            parent.listed += 1;
        }
        context.monitor.advance(Amount { files: 1, bytes: 0 });
        match self.open(context, path) {
            Ok(fd) => {
                let fault = Status::of(&fd).and_then(|status| self.fault(context, record, &status));
                match fault {
                    Ok(None) => {}
                    Ok(Some(fault)) => context.damage(self.snapshot, path, None, fault),
                    Err(errno) => context.failed(self.snapshot, path, "read the status of the directory", errno),
                }
                let present = count(&fd).map_err(|errno| self.fail(context, path, "read the directory", errno)).ok();
                self.push(path, fd, present);
            }
            Err(errno) => {
                self.skipped = Some(path.clone());
                if errno == Errno::NOENT
                    && let Some(parent) = self.parent(path)
                {
                    parent.account.missing.fetch_add(1, Ordering::Relaxed);
                }
                match errno {
                    // A link or a file.
                    Errno::NOTDIR | Errno::LOOP => context.damage(self.snapshot, path, None, Fault::Type),
                    errno => self.fail(context, path, "open the directory", errno),
                }
            }
        }
    }

    /// The directory that holds the next entry, to be checked. `None` if it cannot be opened, which was reported.
    pub(super) fn entry(&mut self, context: &Context<'_>, path: &[u8], left: &mut Vec<Ending>) -> Option<Arc<Place>> {
        self.ascend(path, left);
        if self.is_skipped(path) {
            return None;
        }
        if self.path != path || self.stack.is_empty() {
            // Its record was lost to damage.
            match self.open(context, path) {
                Ok(fd) => self.push(path, fd, None),
                Err(errno) => {
                    self.skipped = Some(path.to_vec());
                    self.fail(context, path, "open the directory", errno);
                    return None;
                }
            }
        }
        let level = self.stack.last_mut()?;
        level.listed += 1;
        if level.place.is_none() {
            // It was too far up.
            let place = Place {
                fd: openat::open_dir(context.snapshots[self.snapshot].tree.as_fd(), path).ok()?,
                account: Arc::clone(&level.account),
            };
            level.place = Some(Arc::new(place));
        }
        level.place.clone()
    }

    /// Leaves all directories.
    pub(super) fn finish(&mut self, left: &mut Vec<Ending>) {
        while self.leave(left) {}
    }

    fn fault(&self, context: &Context<'_>, record: &Directory, status: &Status) -> Result<Option<Fault>> {
        // The top of a tree is not a copy of a directory, unless it is a source.
        if record.path.is_empty() && record.scaffold {
            return Ok(None);
        }
        let times = context.snapshots[self.snapshot].times;
        compare::fault(&record.meta, None, status, times, || Err(Errno::INVAL))
    }

    fn fail(&self, context: &Context<'_>, path: &[u8], action: &str, errno: Errno) {
        context.failed(self.snapshot, path, action, errno);
    }

    fn is_skipped(&self, path: &[u8]) -> bool {
        self.skipped.as_ref().is_some_and(|skipped| is_below(path, skipped))
    }

    /// The level of a directory's parent, if it is the current one.
    fn parent(&mut self, path: &[u8]) -> Option<&mut Level> {
        let is_parent = !path.is_empty() && self.path == split(path).0;
        self.stack.last_mut().filter(|_| is_parent)
    }

    fn open(&mut self, context: &Context<'_>, path: &[u8]) -> Result<OwnedFd> {
        match self.parent(path).and_then(|parent| parent.place.clone()) {
            Some(above) => openat::open_subdir(&above.fd, split(path).1),
            None => openat::open_dir(context.snapshots[self.snapshot].tree.as_fd(), path),
        }
    }

    fn push(&mut self, path: &[u8], fd: OwnedFd, present: Option<u64>) {
        self.path.clear();
        self.path.extend_from_slice(path);
        let account = Arc::<Account>::default();
        let place = Some(Arc::new(Place { fd, account: Arc::clone(&account) }));
        self.stack.push(Level { length: path.len(), place, account, present, listed: 0 });
        if let Some(far) = self.stack.len().checked_sub(self.nearest + 1) {
            self.stack[far].place = None;
        }
    }

    fn ascend(&mut self, path: &[u8], left: &mut Vec<Ending>) {
        while !is_below(path, &self.path) && self.leave(left) {}
    }

    /// Leaves the current directory. Returns false if there is none.
    fn leave(&mut self, left: &mut Vec<Ending>) -> bool {
        let Some(level) = self.stack.pop() else { return false };
        if let Some(present) = level.present {
            let Level { listed, account, .. } = level;
            left.push(Ending { snapshot: self.snapshot, path: self.path.clone(), present, listed, account });
        }
        self.path.truncate(self.stack.last().map_or(0, |level| level.length));
        true
    }
}

impl Ending {
    /// Reports the entries of the directory that have no record. All its entries have been checked.
    pub(super) fn check(&self, context: &Context<'_>) {
        let missing = self.account.missing.load(Ordering::Relaxed);
        if self.present + missing <= self.listed || context.snapshots[self.snapshot].is_deleted() {
            return;
        }
        match self.names(context) {
            // Damage of the manifest was reported when its records were read.
            Ok(names) => match self.report(context, names) {
                Err(error) if error.kind() != ErrorKind::Damage => context.problem(&error),
                _ => {}
            },
            Err(errno) => context.failed(self.snapshot, &self.path, "read the directory", errno),
        }
    }

    /// The names of its entries.
    fn names(&self, context: &Context<'_>) -> Result<Vec<Vec<u8>>> {
        let fd = openat::open_dir(context.snapshots[self.snapshot].tree.as_fd(), &self.path)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if !matches!(name.as_slice(), b"." | b"..") {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn report(&self, context: &Context<'_>, names: Vec<Vec<u8>>) -> crate::error::Result<()> {
        let snapshot = &context.snapshots[self.snapshot];
        let Some(mut listed) = snapshot.manifest.directory(&self.path)? else { return Ok(()) };
        for name in names {
            let path = join(&self.path, &name);
            if listed.seek(&name)?.is_none() && snapshot.manifest.directory(&path)?.is_none() {
                context.damage(self.snapshot, &path, None, Fault::Unlisted);
            }
        }
        Ok(())
    }
}

/// How many entries a directory has.
fn count(fd: &OwnedFd) -> Result<u64> {
    let mut entries = 0;
    for entry in Dir::read_from(fd)? {
        entries += u64::from(!matches!(entry?.file_name().to_bytes(), b"." | b".."));
    }
    Ok(entries)
}
