//! Sends a snapshot as a stream.
//!
//! `steps` reads its manifest in step with that of the base, and `same` compares the records. `elsewhere` finds content
//! that the base has at other paths. `queue` has entries read by many threads: `load` reads one, and finds with
//! `starts` and `difference` what the receiver lacks. `content` sends that, and `places` knows data that was sent with
//! another file.

mod content;
mod difference;
mod elsewhere;
mod load;
mod places;
mod queue;
mod same;
mod starts;
mod steps;

use crate::error::{Error, Result};
use crate::fs::metadata;
use crate::fs::openat;
use crate::fs::spill::Spill;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::compare_records::meta;
use crate::snapshot::manifest::{Entry, Item, Reader};
use crate::snapshot::repository::{self, Repository};
use crate::snapshot::stream::{Begin, Content, DevicePairs, Digest, Op, Output, Place, Position, RecordDigest, Side};
use crate::tree::inode_map::{self, InodeMap};
use crate::util::path::join;
use elsewhere::{Candidate, Elsewhere};
pub(crate) use queue::Work;
use queue::{Pending, Queue, Waiting};
pub(crate) use same::is_same;
use starts::Directories;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use steps::{Step, Steps};

/// A snapshot, open for sending.
pub(crate) struct Snapshot {
    pub(crate) reader: Reader,
    pub(crate) tree: OwnedFd,
    pub(crate) identity: Digest,
}

impl Snapshot {
    /// Opens a snapshot. It is not removed before this is dropped.
    pub(crate) fn open(repository: &Repository, name: &str) -> Result<Snapshot> {
        let reader = repository.manifest(name)?;
        reader.check()?;
        let identity = repository::identity(repository, name)?;
        Ok(Snapshot { tree: repository.tree(name)?, reader, identity })
    }
}

/// Sends a snapshot, based on one that the receiver has. `reads`: files of this repository cannot share data.
pub(crate) fn snapshot<W: Write>(
    out: &mut Output<W>,
    (new, base): (&Snapshot, Option<&Snapshot>),
    position: Position,
    reads: bool,
    threads: usize,
    monitor: &dyn Monitor,
) -> Result<Work> {
    let totals = *new.reader.totals();
    let top = Status::of(&new.tree).map_err(|errno| Error::failed("read the status of the snapshot").because(errno))?;
    let begin = Begin {
        header: new.reader.header().clone(),
        identity: new.identity,
        base: base.map(|base| (base.reader.header().name.clone(), base.identity)),
        top: top.mtime,
        origins: new.reader.origins().to_vec(),
        totals,
        position,
    };
    out.push(&Op::Begin(Box::new(begin)))?;
    let trees = (new.tree.as_fd(), base.map(|base| base.tree.as_fd()));
    let mut sender = Sender {
        queue: Queue::new(out, trees, position.offset, reads, threads, monitor)?,
        new: new.tree.as_fd(),
        base,
        elsewhere: None,
        devices: DevicePairs::default(),
        links: InodeMap::new(Spill::into(None)),
        run: None,
        passed: Position::default(),
        position,
        digest: RecordDigest::default(),
        monitor,
    };
    let mut steps = Steps::new(base.map(|base| base.reader.items()), new.reader.items())?;
    let mut at: Option<Directories> = None;
    while let Some(step) = steps.next()? {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        sender.step(step, steps.directory(), &mut at)?;
    }
    sender.end_run()?;
    let Sender { queue, digest, .. } = sender;
    let work = queue.finish()?;
    out.push(&Op::End { totals, digest: digest.finish() })?;
    Ok(work)
}

/// Consecutive records of the base.
enum Run {
    Same { count: u64, recheck: bool },
    Gone { count: u64 },
}

/// Turns the steps from the base to the snapshot into operations.
struct Sender<'a, W> {
    queue: Queue<'a, W>,
    new: BorrowedFd<'a>,
    base: Option<&'a Snapshot>,
    /// The files of the base, once one of another path is sought.
    elsewhere: Option<Elsewhere<'a>>,
    devices: DevicePairs,
    /// The first path of each inode with several names.
    links: InodeMap<Vec<u8>>,
    run: Option<Run>,
    /// The records so far.
    passed: Position,
    /// How far the receiver has the snapshot already.
    position: Position,
    digest: RecordDigest,
    monitor: &'a dyn Monitor,
}

impl<W: Write> Sender<'_, W> {
    fn step(&mut self, step: Step, directory: &[u8], at: &mut Option<Directories>) -> Result<()> {
        let Step { old, new } = step;
        if old.is_some() {
            self.passed.base_records += 1;
        }
        let Some(new) = new else {
            // The receiver may have removed it already.
            let is_gone = self.passed.base_records <= self.position.base_records;
            return if is_gone { Ok(()) } else { self.gone() };
        };
        let is_known = self.passed.records < self.position.records;
        self.passed.records += 1;
        self.digest.add(&new)?;
        let files = u64::from(matches!(new, Item::Entry(_)));
        self.monitor.advance(Amount { files, bytes: 0 });
        if let Some(old) = old.as_ref().filter(|old| is_same(old, &new)) {
            self.device(meta(old).dev, meta(&new).dev)?;
            if let Item::Entry(entry) = &new {
                self.first_path(entry, directory)?;
            }
            return if is_known { Ok(()) } else { self.same(meta(&new).recheck) };
        }
        if is_known {
            return self.known(new, old.as_ref(), directory, at);
        }
        self.end_run()?;
        let replaces = old.is_some();
        match new {
            Item::Directory(mut directory) => {
                let xattrs = if directory.meta.has_xattrs || !directory.meta.kept_xattrs.is_empty() {
                    load::all(self.directory_xattrs(&directory.path)?, &directory.meta)
                } else {
                    Vec::new()
                };
                directory.meta.kept_xattrs.clear();
                directory.meta.kept_here = false;
                self.queue.push(Pending::Op(Op::Directory { replaces, directory, xattrs }))
            }
            Item::Entry(entry) => {
                let old = match old {
                    Some(Item::Entry(old)) => Some(old),
                    _ => None,
                };
                let content = self.known_content(&entry, old.as_ref(), directory)?;
                let others = match content {
                    None => self.similar(&entry, old.as_ref()),
                    Some(_) => Vec::new(),
                };
                let at = self.enter(directory, at)?;
                self.queue.push(Pending::Entry(Box::new(Waiting { at, replaces, entry, old, others, content })))
            }
        }
    }

    /// Passes an entry that the receiver has already. Others may share its data.
    fn known(&mut self, new: Item, old: Option<&Item>, directory: &[u8], at: &mut Option<Directories>) -> Result<()> {
        let Item::Entry(entry) = new else { return Ok(()) };
        let old = match old {
            Some(Item::Entry(old)) => Some(old),
            _ => None,
        };
        if self.known_content(&entry, old, directory)?.is_some() {
            return Ok(());
        }
        let at = self.enter(directory, at)?;
        self.queue.push(Pending::Known { at, entry })
    }

    /// The content of an entry, if nothing of it must be read.
    fn known_content(&mut self, entry: &Entry, old: Option<&Entry>, directory: &[u8]) -> Result<Option<Content>> {
        if let Some(first) = self.first_path(entry, directory)? {
            return Ok(Some(Content::LinkTo(first)));
        }
        let Some(file) = entry.file().filter(|file| file.size > 0) else { return Ok(Some(Content::InRecord)) };
        let before = old.and_then(Entry::file);
        let is_equal = before.is_some_and(|before| {
            before.size == file.size
                && before.hash.is_some()
                && before.hash == file.hash
                && !file.changed
                && before.holes == file.holes
        });
        let path = if is_equal {
            Some(join(directory, &entry.name))
        } else {
            self.elsewhere().and_then(|elsewhere| elsewhere.equal(file))
        };
        Ok(path.map(|path| Content::Of(Place { side: Side::Base, path, offset: 0 })))
    }

    /// Files at other paths that may have some of the content. A file that stayed the same inode has most of it itself.
    fn similar(&mut self, entry: &Entry, old: Option<&Entry>) -> Vec<Candidate> {
        match old {
            Some(old) if old.file().is_some() && old.meta.ino == entry.meta.ino => Vec::new(),
            _ => self.elsewhere().map_or_else(Vec::new, |elsewhere| elsewhere.similar(entry)),
        }
    }

    /// The files of the base by their content and inode.
    fn elsewhere(&mut self) -> Option<&Elsewhere<'_>> {
        let base = self.base?;
        Some(self.elsewhere.get_or_insert_with(|| Elsewhere::of(&base.reader)))
    }

    /// The path of the name that came first, if the entry is a further name of its inode.
    fn first_path(&mut self, entry: &Entry, directory: &[u8]) -> Result<Option<Vec<u8>>> {
        if entry.meta.nlink < 2 || entry.meta.ino == 0 {
            return Ok(None);
        }
        let failed = |errno| Error::failed("remember hard links").because(errno);
        let inode: inode_map::Identity = entry.meta.inode();
        let first = self.links.get(&inode).map_err(failed)?;
        if first.is_none() {
            self.links.insert(&inode, &join(directory, &entry.name)).map_err(failed)?;
        }
        Ok(first)
    }

    /// Opens the directory of the next entries.
    fn enter(&self, path: &[u8], at: &mut Option<Directories>) -> Result<Directories> {
        if let Some(at) = at.as_ref().filter(|at| *at.path == path) {
            return Ok(at.clone());
        }
        let new = openat::open_dir(self.new, path).map_err(|errno| load::cannot(load::OPEN, path, errno))?;
        let old = self.base.and_then(|base| openat::open_dir(base.tree.as_fd(), path).ok());
        let opened = Directories { path: Arc::new(path.to_vec()), new: Arc::new(new), old: old.map(Arc::new) };
        *at = Some(opened.clone());
        Ok(opened)
    }

    fn directory_xattrs(&self, path: &[u8]) -> Result<Vec<metadata::Xattr>> {
        openat::open_dir(self.new, path)
            .and_then(metadata::xattrs)
            .map_err(|errno| load::cannot("read the attributes of", path, errno))
    }

    /// Has the receiver turn the device number `old` of a record of the base into `new`. The pairs can change on the
    /// way: a directory that became a mount point has another number, and what surrounds it keeps the old one.
    fn device(&mut self, old: u64, new: u64) -> Result<()> {
        if self.devices.of(old) == new {
            return Ok(());
        }
        self.end_run()?;
        self.devices.note(old, new);
        self.queue.push(Pending::Op(Op::Device { old, new }))
    }

    fn same(&mut self, recheck: bool) -> Result<()> {
        match &mut self.run {
            Some(Run::Same { count, recheck: before }) if *before == recheck => *count += 1,
            _ => {
                self.end_run()?;
                self.run = Some(Run::Same { count: 1, recheck });
            }
        }
        Ok(())
    }

    fn gone(&mut self) -> Result<()> {
        match &mut self.run {
            Some(Run::Gone { count }) => *count += 1,
            _ => {
                self.end_run()?;
                self.run = Some(Run::Gone { count: 1 });
            }
        }
        Ok(())
    }

    fn end_run(&mut self) -> Result<()> {
        match self.run.take() {
            Some(Run::Same { count, recheck }) => self.queue.push(Pending::Op(Op::Same { count, recheck })),
            Some(Run::Gone { count }) => self.queue.push(Pending::Op(Op::Gone { count })),
            None => Ok(()),
        }
    }
}
