//! Sends a snapshot as a stream. `steps` reads its manifest in step with that of the base. `elsewhere` finds content that
//! the base has at other paths. `load` reads entries from the tree, and finds with `starts` and `difference` what the
//! receiver lacks. `content` sends that, and `places` knows data that was sent with another file.

mod content;
mod difference;
mod elsewhere;
mod load;
mod places;
mod same;
mod starts;
mod steps;

use crate::error::{Error, ErrorKind, Result};
use crate::extents::address_space::AddressSpace;
use crate::fs::metadata;
use crate::fs::openat;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::judge::meta;
use crate::snapshot::manifest::{Entry, Item, Reader};
use crate::snapshot::repository::{self, Repository};
use crate::snapshot::source_path::join;
use crate::snapshot::stream::{Begin, Content, DevicePairs, Digest, Op, Output, Place, Position, RecordDigest, Side};
use crate::tree::inode_map::{self, InodeMap, Spill};
use crate::tree::walk::absolute;
use elsewhere::{Candidate, Elsewhere};
use load::{Directories, Loaded};
use places::Places;
use rayon::prelude::*;
use starts::Starts;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use steps::{Step, Steps};

/// How many entries are read together.
const TOGETHER: usize = 256;

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

/// The work of sending a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Bytes of content.
    pub(crate) sent_bytes: u64,
    /// Bytes of content that the receiver has in other files.
    pub(crate) shared_bytes: u64,
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
    let begin = Begin {
        header: new.reader.header().clone(),
        identity: new.identity,
        base: base.map(|base| (base.reader.header().name.clone(), base.identity)),
        origins: new.reader.origins().to_vec(),
        totals,
        position,
    };
    out.push(&Op::Begin(Box::new(begin)))?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|_| Error::failed("start the threads that read"))?;
    let space = AddressSpace::of(&new.tree).ok().flatten().map(AddressSpace::id);
    let mut sender = Sender {
        out,
        new: new.tree.as_fd(),
        base,
        elsewhere: None,
        reads,
        pool,
        places: Places::new(space),
        devices: DevicePairs::default(),
        links: InodeMap::new(Spill::into(None)),
        run: None,
        pending: Vec::new(),
        passed: Position::default(),
        position,
        digest: RecordDigest::default(),
        work: Work::default(),
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
    sender.flush()?;
    let digest = sender.digest.finish();
    let work = sender.work;
    out.push(&Op::End { totals, digest })?;
    Ok(work)
}

/// Consecutive records of the base.
enum Run {
    Same { count: u64, recheck: bool },
    Gone { count: u64 },
}

/// A step that waits until its entry was read.
enum Pending {
    Op(Op),
    /// The receiver has it already.
    Known {
        at: Directories,
        entry: Entry,
    },
    Entry(Box<Waiting>),
}

/// An entry that the receiver lacks.
struct Waiting {
    at: Directories,
    replaces: bool,
    entry: Entry,
    /// The base's entry at this path.
    old: Option<Entry>,
    /// Files of the base at other paths that may have some of the content.
    others: Vec<Candidate>,
    /// The content, if nothing of it must be read.
    content: Option<Content>,
}

struct Sender<'a, W> {
    out: &'a mut Output<W>,
    new: BorrowedFd<'a>,
    base: Option<&'a Snapshot>,
    /// The files of the base, once one of another path is sought.
    elsewhere: Option<Elsewhere<'a>>,
    /// Files of this repository cannot share data.
    reads: bool,
    pool: rayon::ThreadPool,
    places: Places,
    devices: DevicePairs,
    /// The first path of each inode with several names.
    links: InodeMap<Vec<u8>>,
    run: Option<Run>,
    pending: Vec<Pending>,
    /// The records so far.
    passed: Position,
    /// How far the receiver has the snapshot already.
    position: Position,
    digest: RecordDigest,
    work: Work,
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
        if let Some(old) = &old {
            if meta(old).dev != meta(&new).dev && self.devices.of(meta(old).dev) != meta(&new).dev {
                let (old, new) = (meta(old).dev, meta(&new).dev);
                self.end_run()?;
                self.devices.note(old, new);
                self.queue(Pending::Op(Op::Device { old, new }))?;
            }
            if same::is_same(old, &new) {
                if let Item::Entry(entry) = &new {
                    self.first_path(entry, directory)?;
                }
                return if is_known { Ok(()) } else { self.same(meta(&new).recheck) };
            }
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
                self.queue(Pending::Op(Op::Directory { replaces, directory, xattrs }))
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
                self.queue(Pending::Entry(Box::new(Waiting { at, replaces, entry, old, others, content })))
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
        self.queue(Pending::Known { at, entry })
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
        let new = openat::open_dir(self.new, path)
            .map_err(|errno| Error::io("open in the snapshot", absolute(path), errno))?;
        let old = self.base.and_then(|base| openat::open_dir(base.tree.as_fd(), path).ok());
        let opened = Directories { path: Arc::new(path.to_vec()), new: Arc::new(new), old: old.map(Arc::new) };
        *at = Some(opened.clone());
        Ok(opened)
    }

    fn directory_xattrs(&self, path: &[u8]) -> Result<Vec<metadata::Xattr>> {
        openat::open_dir(self.new, path)
            .and_then(metadata::xattrs)
            .map_err(|errno| Error::io("read the attributes of", absolute(path), errno))
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
            Some(Run::Same { count, recheck }) => self.queue(Pending::Op(Op::Same { count, recheck })),
            Some(Run::Gone { count }) => self.queue(Pending::Op(Op::Gone { count })),
            None => Ok(()),
        }
    }

    fn queue(&mut self, pending: Pending) -> Result<()> {
        self.pending.push(pending);
        if self.pending.len() >= TOGETHER { self.send_pending() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.end_run()?;
        self.send_pending()
    }

    /// Reads the entries that wait, and sends them.
    fn send_pending(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let (base, reads) = (self.base.map(|base| base.tree.as_fd()), self.reads);
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
            pending.par_iter().with_max_len(4).map(load).collect()
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
                        let from = std::mem::take(&mut self.position.offset);
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

/// The error for a file of the tree that is not as its record says.
fn damaged(path: &[u8]) -> Error {
    Error::new(ErrorKind::Damage, "send")
        .at(absolute(path))
        .because(std::io::Error::other("the file of the snapshot differs from its record"))
}
