//! What every step of a copy knows.

use super::directory::Place;
use super::links::Links;
use super::not_kept::NotKept;
use super::plan::Plan;
use super::{Options, Stats};
use crate::copy::Request;
use crate::error::Error;
use crate::filesystem::Kind;
use crate::metadata::{Creator, FileAttrs};
use crate::monitor::Monitor;
use crate::mutex::{self, lock};
use crate::staging::{Ahead, Devices};
use crate::status::Time;
use crate::turns::{Turns, cores};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;

/// A run.
pub(super) struct Context<'a> {
    pub(super) plan: &'a Plan,
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    /// When it began, on the clock that stamps files.
    pub(super) begun: Time,
    pub(super) creator: Creator,
    pub(super) devices: Devices,
    /// Has what was made written out meanwhile.
    pub(super) ahead: Ahead,
    /// Flags and projects of the sources.
    pub(super) fileattrs: FileAttrs,
    pub(super) links: Links,
    pub(super) not_kept: NotKept,
    /// How content comes over.
    pub(super) request: Request,
    /// Threads that create and fill small files at once.
    pub(super) writers: Turns,
    /// Threads that copy a large file at once: each keeps the device busy.
    pub(super) large: Turns,
    stats: Mutex<Stats>,
}

impl<'a> Context<'a> {
    pub(super) fn new(plan: &'a Plan, options: &'a Options, monitor: &'a dyn Monitor) -> Self {
        let kind = Kind::of(&plan.top).unwrap_or(Kind::Other(0));
        Context {
            plan,
            options,
            monitor,
            begun: Time::now(),
            creator: Creator::current(),
            devices: Devices::default(),
            ahead: Ahead::default(),
            fileattrs: FileAttrs::default(),
            links: Links::default(),
            not_kept: NotKept::default(),
            request: Request { engine: options.engine, hashed: false },
            writers: Turns::of_writers(kind),
            large: Turns::new(cores().min(options.threads.unwrap_or(usize::MAX))),
            stats: Mutex::default(),
        }
    }

    /// Where a path below the top lies, for messages.
    pub(super) fn shown(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.plan.shown.clone() } else { self.plan.shown.join(OsStr::from_bytes(path)) }
    }

    /// Whether a directory of the destination is the same as one of the sources.
    pub(super) fn is_source(&self, inode: (u64, u64)) -> bool {
        self.plan.source_inodes.contains(&inode)
    }

    /// How many large files of one directory are begun at once; the run as a whole has its turns.
    pub(super) fn side_by_side(&self) -> usize {
        cores().min(self.options.threads.unwrap_or(usize::MAX))
    }

    /// Tells that an entry was left out, and why.
    pub(super) fn problem(&self, error: &Error, part: &mut Stats) {
        part.errors += 1;
        self.monitor.problem(error);
    }

    /// Counts what a part of the run did.
    pub(super) fn count(&self, part: &Stats) {
        lock(&self.stats).add(part);
    }

    pub(super) fn into_stats(self) -> Stats {
        let mut stats = mutex::into_inner(self.stats);
        self.not_kept.count(&mut stats, self.creator.is_root());
        stats
    }

    /// The directory that everything comes to lie in.
    pub(super) fn top(&self) -> rustix::io::Result<Place> {
        Place::top(self)
    }
}
