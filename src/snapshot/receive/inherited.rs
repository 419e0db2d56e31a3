//! Entries that the base has and the tree lacks: cloned from the base's tree, some hundred at a time, by many threads.

use super::content::Written;
use super::entry;
use super::links::Links;
use super::tree::{Tree, cannot_make};
use crate::error::{Error, Result};
use crate::fs::metadata::{self, Xattr};
use crate::fs::openat;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::manifest::{Directory, Entry, Meta};
use crate::snapshot::recorded;
use crate::snapshot::stream::Xattrs;
use crate::tree::walk::absolute;
use crate::util::path::join;
use crate::util::pool::{self, Pool};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How many entries wait at most.
const TOGETHER: usize = 1024;

/// Entries of the base that will be made.
pub(super) struct Inherited<'a> {
    base: Option<BorrowedFd<'a>>,
    waiting: Vec<Waiting>,
    /// The base's directory that was opened last.
    directory: Option<(Arc<Vec<u8>>, Arc<OwnedFd>)>,
    pool: Pool,
}

struct Waiting {
    path: Arc<Vec<u8>>,
    dir: Arc<OwnedFd>,
    entry: Entry,
}

impl<'a> Inherited<'a> {
    pub(super) fn new(base: Option<BorrowedFd<'a>>, threads: usize) -> Result<Inherited<'a>> {
        let pool = Pool::start(threads);
        Ok(Inherited {
            base,
            waiting: Vec::new(),
            directory: None,
            pool: pool.map_err(|_| Error::failed("start the threads that clone"))?,
        })
    }

    /// The attributes of a directory of the base.
    pub(super) fn xattrs(&self, directory: &Directory) -> Result<Xattrs> {
        let mut xattrs = Vec::new();
        if let Some(base) = self.base.filter(|_| directory.meta.has_xattrs) {
            let found = openat::open_dir(base, &directory.path).and_then(metadata::xattrs);
            xattrs = found.map_err(|errno| Error::io("read the attributes of", absolute(&directory.path), errno))?;
        }
        Ok(directory.meta.xattrs(xattrs).into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    pub(super) fn push(&mut self, path: &[u8], dir: Arc<OwnedFd>, entry: Entry) {
        let path = match self.waiting.last() {
            Some(last) if *last.path == path => Arc::clone(&last.path),
            _ => Arc::new(path.to_vec()),
        };
        self.waiting.push(Waiting { path, dir, entry });
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= TOGETHER
    }

    /// Makes the entries that wait. Returns their records, and whether each is a further name of its inode.
    pub(super) fn make(
        &mut self,
        tree: &mut Tree,
        links: &mut Links,
        monitor: &dyn Monitor,
    ) -> Result<Vec<(Entry, bool)>> {
        let waiting = std::mem::take(&mut self.waiting);
        let Some(base) = self.base.filter(|_| !waiting.is_empty()) else { return Ok(Vec::new()) };
        let mut jobs = Vec::with_capacity(waiting.len());
        for Waiting { path, dir, entry } in waiting {
            let from = match &self.directory {
                Some((known, fd)) if *known == path => Arc::clone(fd),
                _ => {
                    let fd = openat::open_dir(base, &path);
                    let fd =
                        Arc::new(fd.map_err(|errno| Error::io("open the base's copy of", absolute(&path), errno))?);
                    self.directory = Some((Arc::clone(&path), Arc::clone(&fd)));
                    fd
                }
            };
            let first = links.first(&entry)?;
            if first.is_none() {
                links.note(&path, &entry, false)?;
            }
            tree.make_room(dir.as_fd(), &entry.name, &path)?;
            jobs.push((path, dir, from, entry, first));
        }
        let shared = &*tree;
        let made: Vec<Result<Entry>> = self.pool.install(|| {
            pool::map_in_parts(&jobs, 16, |(path, dir, from, entry, first)| match first {
                Some(_) => Ok(entry.clone()),
                None => make(shared, (path, dir, from), entry.clone(), monitor),
            })
        });
        let mut entries: Vec<Entry> = made.into_iter().collect::<Result<_>>()?;
        for ((path, dir, _, _, first), entry) in jobs.iter().zip(&mut entries) {
            match first {
                // The first name may have been made just now: what its tree refused is known only now.
                Some(_) => {
                    if let Some(first) = links.first(entry)? {
                        first.link(tree, dir.as_fd(), path, entry)?;
                    }
                }
                None => links.note(path, entry, false)?,
            }
        }
        monitor.advance(Amount { files: jobs.len() as u64, bytes: 0 });
        let is_further = jobs.iter().map(|(.., first)| first.is_some());
        Ok(entries.into_iter().zip(is_further).collect())
    }
}

fn make(
    tree: &Tree,
    (path, dir, from): (&[u8], &OwnedFd, &OwnedFd),
    mut entry: Entry,
    monitor: &dyn Monitor,
) -> Result<Entry> {
    let failed = |errno| cannot_make(&join(path, &entry.name), errno);
    if let Some(size) = entry.file().map(|file| file.size) {
        let source = openat::open_regular(from.as_fd(), &entry.name)
            .map_err(|errno| Error::io("open the base's copy of", absolute(&join(path, &entry.name)), errno))?;
        let xattrs = if entry.meta.has_xattrs { metadata::xattrs(&source).map_err(failed)? } else { Vec::new() };
        let xattrs = take_all(&mut entry.meta, xattrs);
        let attributes = tree.attributes(&entry.meta, &xattrs);
        let made = entry::create(tree, dir.as_fd(), &entry.name, &attributes).map_err(failed)?;
        entry::clone(tree, &source, &made, size, monitor).map_err(failed)?;
        let refused = tree.creator.finish(&made, attributes.mode, &attributes).map_err(failed)?;
        tree.keep(&mut entry.meta, refused);
        entry::set_stored(&mut entry, Written::default());
        return Ok(entry);
    }
    let xattrs = recorded::of_node(from, &entry).map_err(failed)?;
    let xattrs = take_all(&mut entry.meta, xattrs);
    let path = join(path, &entry.name);
    entry::node(tree, dir.as_fd(), &mut entry, &xattrs).map_err(|errno| cannot_make(&path, errno))?;
    Ok(entry)
}

/// All attributes of an entry. Those that only its record had are taken from the record: this tree may accept them.
fn take_all(meta: &mut Meta, tree: Vec<Xattr>) -> Vec<Xattr> {
    let all = meta.xattrs(tree);
    meta.kept_xattrs.clear();
    all
}
