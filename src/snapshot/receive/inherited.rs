//! Entries that the base has and the tree lacks: cloned from the base's tree, some hundred at a time, by many threads.

use super::content::Written;
use super::entry;
use super::tree::{Tree, cannot_make, keep};
use crate::error::{Error, Result};
use crate::fs::metadata::{self, Xattr};
use crate::fs::openat;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::manifest::{Directory, Entry};
use crate::snapshot::repository::Staging;
use crate::snapshot::source_path::{join, split};
use crate::snapshot::stream::Xattrs;
use crate::tree::inode_map::{InodeMap, Spill};
use crate::tree::walk::absolute;
use rayon::prelude::*;
use rustix::fs::AtFlags;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How many entries wait at most.
const TOGETHER: usize = 1024;

/// Entries of the base that are to be made.
pub(super) struct Inherited<'a> {
    base: Option<BorrowedFd<'a>>,
    waiting: Vec<Waiting>,
    /// The base's directory that was opened last.
    directory: Option<(Arc<Vec<u8>>, Arc<OwnedFd>)>,
    /// The first path of each inode with several names.
    links: InodeMap<Vec<u8>>,
    pool: rayon::ThreadPool,
}

struct Waiting {
    path: Arc<Vec<u8>>,
    dir: Arc<OwnedFd>,
    entry: Entry,
}

impl<'a> Inherited<'a> {
    pub(super) fn new(base: Option<BorrowedFd<'a>>, staging: &Staging, threads: usize) -> Result<Inherited<'a>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let spill = staging.links.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?;
        Ok(Inherited {
            base,
            waiting: Vec::new(),
            directory: None,
            links: InodeMap::new(Spill::into(Some(spill))),
            pool: pool.map_err(|_| Error::failed("start the threads that clone"))?,
        })
    }

    /// The attributes of a directory of the base.
    pub(super) fn xattrs(&self, directory: &Directory) -> Result<Xattrs> {
        let mut xattrs = directory.meta.kept_xattrs.clone();
        if let Some(base) = self.base.filter(|_| directory.meta.has_xattrs) {
            let found = openat::open_dir(base, &directory.path).and_then(metadata::xattrs);
            let found = found.map_err(|errno| Error::io("read the attributes of", absolute(&directory.path), errno))?;
            xattrs.retain(|(name, _)| !found.iter().any(|(known, _)| known[..] == name[..]));
            xattrs.extend(found.into_iter().map(|(name, value)| (name.into(), value.into())));
        }
        Ok(xattrs)
    }

    pub(super) fn push(&mut self, path: &[u8], dir: Arc<OwnedFd>, entry: Entry) {
        let path = match self.waiting.last() {
            Some(last) if *last.path == path => Arc::clone(&last.path),
            _ => Arc::new(path.to_vec()),
        };
        self.waiting.push(Waiting { path, dir, entry });
    }

    /// Notes a name of an inode that may have others. Returns the path of the name that came first, if it is another.
    pub(super) fn note_link(&mut self, path: &[u8], entry: &Entry) -> Result<Option<Vec<u8>>> {
        if entry.meta.nlink < 2 || entry.meta.ino == 0 {
            return Ok(None);
        }
        let failed = |errno| Error::failed("remember hard links").because(errno);
        let inode = entry.meta.inode();
        let first = self.links.get(&inode).map_err(failed)?;
        if first.is_none() {
            self.links.insert(&inode, &join(path, &entry.name)).map_err(failed)?;
        }
        Ok(first)
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= TOGETHER
    }

    /// Makes the entries that wait. Returns their records.
    pub(super) fn make(&mut self, tree: &Tree, monitor: &dyn Monitor) -> Result<Vec<Entry>> {
        let waiting = std::mem::take(&mut self.waiting);
        let Some(base) = self.base.filter(|_| !waiting.is_empty()) else { return Ok(Vec::new()) };
        let mut jobs = Vec::with_capacity(waiting.len());
        for Waiting { path, dir, entry } in waiting {
            let from = match &self.directory {
                Some((known, fd)) if *known == path => Arc::clone(fd),
                _ => {
                    let fd = openat::open_dir(base, &path);
                    let fd = Arc::new(fd.map_err(|errno| Error::io("open in the base", absolute(&path), errno))?);
                    self.directory = Some((Arc::clone(&path), Arc::clone(&fd)));
                    fd
                }
            };
            let first = self.note_link(&path, &entry)?;
            jobs.push((path, dir, from, entry, first));
        }
        let made: Vec<Result<Entry>> = self.pool.install(|| {
            jobs.par_iter_mut()
                .with_max_len(16)
                .map(|(path, dir, from, entry, first)| match first {
                    Some(_) => Ok(entry.clone()),
                    None => make(tree, (path, dir, from), entry.clone(), monitor),
                })
                .collect()
        });
        for (path, dir, _, entry, first) in &jobs {
            let Some(first) = first else { continue };
            let (directory, name) = split(first);
            let linked = tree
                .any_directory(directory)
                .and_then(|first| rustix::fs::linkat(&first, name, &**dir, &entry.name, AtFlags::empty()));
            linked.map_err(|errno| cannot_make(&join(path, &entry.name), errno))?;
        }
        monitor.advance(Amount { files: jobs.len() as u64, bytes: 0 });
        made.into_iter().collect()
    }
}

fn make(
    tree: &Tree,
    (path, dir, from): (&[u8], &OwnedFd, &OwnedFd),
    mut entry: Entry,
    monitor: &dyn Monitor,
) -> Result<Entry> {
    let failed = |errno| cannot_make(&join(path, &entry.name), errno);
    let kept = std::mem::take(&mut entry.meta.kept_xattrs);
    let kept: Vec<Xattr> = kept.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
    if let Some(file) = entry.file() {
        let source = openat::open_file(from.as_fd(), &entry.name)
            .map_err(|errno| Error::io("open in the base", absolute(&join(path, &entry.name)), errno))?;
        let mut xattrs = if entry.meta.has_xattrs { metadata::xattrs(&source).map_err(failed)? } else { Vec::new() };
        xattrs.extend(kept);
        let attributes = tree.attributes(&entry.meta, &xattrs);
        let made = entry::create(tree, dir.as_fd(), &entry.name, &attributes).map_err(failed)?;
        entry::clone(tree, &source, &made, file.size, monitor).map_err(failed)?;
        let refused = tree.creator.finish(&made, entry.meta.mode, &attributes).map_err(failed)?;
        keep(&mut entry.meta, refused);
        entry::set_stored(&mut entry, Written::default());
        return Ok(entry);
    }
    let mut xattrs =
        if entry.meta.has_xattrs { metadata::xattrs_at(from, &entry.name).map_err(failed)? } else { Vec::new() };
    xattrs.extend(kept);
    let path = join(path, &entry.name);
    entry::node(tree, dir.as_fd(), &mut entry, &xattrs).map_err(|errno| cannot_make(&path, errno))?;
    Ok(entry)
}
