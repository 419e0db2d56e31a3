//! The directories from the top to the current one. The nearest are open. Those above them are closed, and are opened
//! again when the restore returns to them.
//!
//! A copy has no such path: its parallel walk keeps the directories. A restore follows the manifest, one stream, and
//! `batch` restores its entries in parallel.

use super::context::Context;
use super::end::End;
use super::place::{Closed, Place};
use crate::error::{Error, Result};
use crate::fs::open_files;
use crate::fs::reopener::Reopener;
use crate::tree::walk::PathNode;
use crate::tree::writer::Target as _;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How many directories are held open, at most.
const NEAREST: usize = 64;

/// The path from the top to the current directory.
pub(super) struct Levels {
    source: Reopener,
    target: Option<Reopener>,
    /// The path of the current directory.
    path: Vec<u8>,
    levels: Vec<Level>,
    /// [`NEAREST`], or fewer if this process may open few files.
    nearest: usize,
}

/// A directory on this path.
pub(super) struct Level {
    /// The length of its path, which is the beginning of the current path.
    length: usize,
    held: Held,
    /// `st_dev` in the source.
    pub(super) dev: Option<u64>,
    /// The changes to it when the restore leaves it.
    pub(super) end: End,
}

/// A directory that the restore has left.
pub(super) enum Left {
    /// Nothing changes.
    AsItIs,
    /// These changes are due.
    Ends(Arc<Place>, End),
    /// Changes are due, but it cannot be opened again.
    Lost(Error),
}

enum Held {
    Open(Arc<Place>),
    Closed(Closed),
}

impl Levels {
    /// The top alone: the snapshot's tree and the target.
    pub(super) fn new(context: &Context<'_>, source: OwnedFd, target: Option<OwnedFd>) -> Result<Levels> {
        let open = || {
            let reopeners = (Reopener::new(&source)?, target.as_ref().map(Reopener::new).transpose()?);
            Ok((reopeners, Place::new(&context.devices, PathNode::top(b""), source, target, false)?))
        };
        let ((source, target), top) =
            open().map_err(|errno: Errno| Error::io("open the directory", &context.options.target, errno))?;
        let nearest = open_files::part(10, 2..=NEAREST);
        let top = Level { length: 0, held: Held::Open(Arc::new(top)), dev: None, end: End::nothing() };
        Ok(Levels { source, target, path: Vec::new(), levels: vec![top], nearest })
    }

    /// The path of the current directory.
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whether the current directory is the top.
    pub(super) fn is_top(&self) -> bool {
        self.levels.len() <= 1
    }

    /// The current directory.
    pub(super) fn present(&mut self) -> Option<&mut Level> {
        self.levels.last_mut()
    }

    /// Forgets the known names of the directories on the path, because records were lost to damage. They must be looked
    /// up.
    pub(super) fn forget_known(&mut self) {
        self.levels.iter_mut().for_each(|level| level.end.known = None);
    }

    /// The current directory, open.
    pub(super) fn here(&mut self, context: &Context<'_>) -> Result<Arc<Place>> {
        let Some(level) = self.levels.last_mut() else { return Err(Error::failed("leave the target")) };
        let place = level.open(context, &self.path, (&self.source, self.target.as_ref()))?;
        level.held = Held::Open(Arc::clone(&place));
        Ok(place)
    }

    /// Enters a subdirectory of the current directory.
    pub(super) fn enter(&mut self, path: &[u8], place: Place, dev: Option<u64>, end: End) {
        self.path.clear();
        self.path.extend_from_slice(path);
        self.levels.push(Level { length: path.len(), held: Held::Open(Arc::new(place)), dev, end });
        if let Some(far) = self.levels.len().checked_sub(self.nearest) {
            self.levels[far].close();
        }
    }

    /// Leaves the current directory, which is never the top.
    pub(super) fn leave(&mut self, context: &Context<'_>) -> Left {
        let level = if self.is_top() { None } else { self.levels.pop() };
        let Some(level) = level else { return Left::AsItIs };
        let left = match level.end.is_something() {
            false => Left::AsItIs,
            true => match level.open(context, &self.path, (&self.source, self.target.as_ref())) {
                Ok(place) => Left::Ends(place, level.end),
                Err(error) => Left::Lost(error),
            },
        };
        self.path.truncate(self.levels.last().map_or(0, |level| level.length));
        left
    }
}

impl Level {
    /// [`Place::is_beyond_mount`].
    pub(super) fn is_beyond_mount(&self) -> bool {
        match &self.held {
            Held::Open(place) => place.is_beyond_mount,
            Held::Closed(closed) => closed.is_beyond_mount,
        }
    }

    /// The directory with this path.
    fn open(
        &self,
        context: &Context<'_>,
        path: &[u8],
        reopeners: (&Reopener, Option<&Reopener>),
    ) -> Result<Arc<Place>> {
        match &self.held {
            Held::Open(place) => Ok(Arc::clone(place)),
            Held::Closed(closed) => closed
                .reopen(&context.devices, path, reopeners)
                .map(Arc::new)
                .map_err(|errno| context.failure(path, "open the directory again", errno).into_error()),
        }
    }

    fn close(&mut self) {
        // A directory that cannot be recognized again stays open.
        if let Held::Open(place) = &self.held
            && let Ok(closed) = place.closed()
        {
            self.held = Held::Closed(closed);
        }
    }
}
