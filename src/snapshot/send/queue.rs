//! Operations that wait: the entries among them are read together, by many threads, and sent in their order.

use super::content;
use super::elsewhere::Candidate;
use super::load::{self, Loaded};
use super::places::Places;
use super::starts::{Directories, Starts};
use crate::error::{Error, Result};
use crate::extents::address_space::AddressSpace;
use crate::fs::open_files;
use crate::monitor::Monitor;
use crate::snapshot::manifest::Entry;
use crate::snapshot::stream::{Content, Op, Output, Place, Side};
use crate::util::path::join;
use crate::util::pool::{self, Pool};
use std::io::Write;
use std::os::fd::BorrowedFd;

/// The most entries that are read together. Each may have a file open until it is sent.
const TOGETHER: usize = 256;

/// The work of sending a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Bytes of content.
    pub(crate) sent_bytes: u64,
    /// Bytes of content that the receiver has in other files.
    pub(crate) shared_bytes: u64,
}

/// A step that waits until its entry was read.
pub(super) enum Pending {
    Op(Op),
    /// The receiver has it already.
    Known {
        at: Directories,
        entry: Entry,
    },
    Entry(Box<Waiting>),
}

/// An entry that the receiver lacks.
pub(super) struct Waiting {
    pub(super) at: Directories,
    pub(super) replaces: bool,
    pub(super) entry: Entry,
    /// The base's entry at this path.
    pub(super) old: Option<Entry>,
    /// Files of the base at other paths that may have some of the content.
    pub(super) others: Vec<Candidate>,
    /// The content, if nothing of it must be read.
    pub(super) content: Option<Content>,
}

/// The operations.
pub(super) struct Queue<'a, W> {
    out: &'a mut Output<W>,
    base: Option<BorrowedFd<'a>>,
    /// Files of this repository cannot share data.
    reads: bool,
    pool: Pool,
    places: Places,
    pending: Vec<Pending>,
    /// How many entries are read together.
    together: usize,
    /// How much of the first file's content the receiver has already.
    begun: u64,
    work: Work,
    monitor: &'a dyn Monitor,
}

impl<'a, W: Write> Queue<'a, W> {
    /// Operations for `out`. `begun`: how many bytes of the first file with content the receiver has.
    pub(super) fn new(
        out: &'a mut Output<W>,
        (new, base): (BorrowedFd<'_>, Option<BorrowedFd<'a>>),
        begun: u64,
        reads: bool,
        threads: usize,
        monitor: &'a dyn Monitor,
    ) -> Result<Self> {
        let pool = Pool::start(threads);
        let space = AddressSpace::of(new).ok().flatten().map(AddressSpace::id);
        Ok(Queue {
            out,
            base,
            reads,
            pool: pool.map_err(|_| Error::failed("start the threads that read"))?,
            places: Places::new(space),
            pending: Vec::new(),
            together: open_files::part(4, 1..=TOGETHER),
            begun,
            work: Work::default(),
            monitor,
        })
    }

    /// Adds an operation.
    pub(super) fn push(&mut self, pending: Pending) -> Result<()> {
        self.pending.push(pending);
        if self.pending.len() >= self.together { self.send() } else { Ok(()) }
    }

    /// Sends what still waits.
    pub(super) fn finish(mut self) -> Result<Work> {
        self.send()?;
        Ok(self.work)
    }

    /// Reads the entries that wait, and sends them.
    fn send(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let (base, reads) = (self.base, self.reads);
        let loaded: Vec<Result<Loaded>> = self.pool.install(|| {
            let load = |pending: &Pending| match pending {
                Pending::Op(_) => Ok(Loaded::default()),
                Pending::Known { at, entry } => {
                    let pieces = load::pieces(at, entry)?;
                    Ok(Loaded { pieces, ..Loaded::default() })
                }
                Pending::Entry(waiting) => {
                    let Waiting { at, entry, old, others, content, .. } = &**waiting;
                    let starts = Starts { old: old.as_ref(), others, base, reads };
                    load::entry(at, entry, content.is_none().then_some(&starts))
                }
            };
            pool::map_in_parts(&pending, 4, load)
        });
        for (pending, loaded) in pending.into_iter().zip(loaded) {
            let Loaded { xattrs, file, pieces } = loaded?;
            match pending {
                Pending::Op(op) => self.out.push(&op)?,
                Pending::Known { at, entry } => {
                    self.places.add(Side::New, &join(&at.path, &entry.name), &pieces);
                }
                Pending::Entry(waiting) => {
                    let Waiting { at, replaces, mut entry, content, .. } = *waiting;
                    let path = join(&at.path, &entry.name);
                    let content = content.unwrap_or_else(|| {
                        let start = file.as_ref().and_then(|file| file.start.clone());
                        Content::Parts { start: start.map(|path| Place { side: Side::Base, path, offset: 0 }) }
                    });
                    entry.meta.kept_xattrs.clear();
                    entry.meta.kept_here = false;
                    self.out.push(&Op::Entry { replaces, entry, xattrs, content })?;
                    if let Some(file) = file {
                        let from = std::mem::take(&mut self.begun);
                        let (data, shared) = content::send(self.out, &file, from, &path, &self.places, self.monitor)?;
                        self.work.sent_bytes += data;
                        self.work.shared_bytes += shared;
                        self.places.add(Side::New, &path, &file.pieces);
                    }
                }
            }
        }
        Ok(())
    }
}
