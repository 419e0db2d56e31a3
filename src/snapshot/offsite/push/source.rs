//! A snapshot as the source of a backup: paths, inodes and times from the manifest, content from the tree.
//!
//! A thread of its own reads the manifest, so that the library's threads only compare.

use super::content::Content;
use super::node;
use super::order::{Order, Step};
use super::tree::Tree;
use crate::error::Error;
use crate::fs::metadata::{self, Xattr};
use crate::fs::openat;
use crate::snapshot::manifest::{Body, Directory, Entry, FileBody, Reader, Time};
use crate::snapshot::unreadable;
use crate::tree::walk::absolute;
use crate::util::path::join;
use crate::util::text;
use rustic_core::{ReadSource, ReadSourceEntry, RusticResult};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// How many entries are handed over at once.
const BATCH: usize = 256;
/// How many batches may wait.
const BATCHES: usize = 4;

/// The most bytes of holes that a file may have: hours of work for zeros.
const MOST_HOLES: u64 = 16 << 40;

type Item = RusticResult<ReadSourceEntry<Content>>;

/// What a backup reads.
pub(super) struct Source {
    pub(super) reader: Arc<Reader>,
    pub(super) tree: Arc<Tree>,
    /// When the snapshot was begun.
    pub(super) created: Time,
}

impl ReadSource for Source {
    type Open = Content;
    type Iter = Entries;

    fn size(&self) -> RusticResult<Option<u64>> {
        Ok(Some(self.reader.totals().bytes))
    }

    fn entries(&self) -> Entries {
        let (sender, receiver) = sync_channel(BATCHES);
        let producer = Producer {
            tree: self.tree.clone(),
            created: self.created,
            open: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            sender,
        };
        let reader = self.reader.clone();
        let started = thread::Builder::new().name("manifest".into()).spawn(move || producer.run(&reader));
        if let Err(cause) = started {
            self.tree.fail(Error::failed("start a thread").because(cause));
        }
        Entries { receiver, batch: Vec::new().into_iter() }
    }
}

/// The entries, in the order of a backup.
pub(super) struct Entries {
    receiver: Receiver<Vec<Item>>,
    batch: std::vec::IntoIter<Item>,
}

impl Iterator for Entries {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.batch.next() {
                return Some(item);
            }
            self.batch = self.receiver.recv().ok()?.into_iter();
        }
    }
}

struct Producer {
    tree: Arc<Tree>,
    created: Time,
    /// The directories that did not end.
    open: Vec<Way>,
    batch: Vec<Item>,
    sender: SyncSender<Vec<Item>>,
}

/// A directory on the way, opened if something in it has attributes.
struct Way {
    path: Vec<u8>,
    fd: Option<OwnedFd>,
}

impl Producer {
    fn run(mut self, reader: &Reader) {
        let mut order = Order::default();
        for item in reader.items() {
            match item {
                Ok(item) => order.push(item, &mut |step| self.step(step)),
                Err(error) => return self.tree.fail(error),
            }
            if self.tree.watch.is_over() {
                return;
            }
        }
        order.finish(&mut |step| self.step(step));
        self.flush();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Directory(directory) => self.directory(directory),
            Step::Entry(entry) => self.entry(entry),
            Step::End => {
                self.open.pop();
            }
        }
    }

    fn directory(&mut self, directory: Directory) {
        let Directory { path, meta, .. } = directory;
        let mut fd = None;
        let mut xattrs = Vec::new();
        if meta.has_xattrs {
            let opened = openat::open_dir(self.tree.root.as_fd(), &path);
            match opened.and_then(|opened| Ok((metadata::xattrs(&opened)?, opened))) {
                Ok((found, opened)) => (xattrs, fd) = (found, Some(opened)),
                Err(errno) => self.unreadable(&path, errno),
            }
        }
        let xattrs = meta.xattrs(xattrs);
        if !path.is_empty() {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(&path);
            let node = node::of_directory(name, &meta, xattrs, self.created);
            self.push(ReadSourceEntry { path: absolute(&path), node, open: None });
        }
        self.open.push(Way { path, fd });
    }

    fn entry(&mut self, entry: Entry) {
        let path = join(self.open.last().map_or(&[][..], |way| &way.path), &entry.name);
        if let Some(file) = entry.file().filter(|file| file.holes > MOST_HOLES) {
            let why = format!("it has holes of {}, which the store would keep as zeros", text::size(file.holes));
            let error = Error::failed("send").at(absolute(&path)).because(io::Error::other(why));
            return self.tree.counts.problem(error.hint("exclude it"));
        }
        let mut xattrs = Vec::new();
        // restic sets the attributes of a link on the file that it leads to, and stores none.
        let is_link = matches!(entry.body, Body::Symlink(_));
        if entry.meta.has_xattrs && !is_link {
            match self.xattrs(&entry.name) {
                Ok(found) => xattrs = found,
                Err(errno) => self.unreadable(&path, errno),
            }
        }
        if !is_link {
            xattrs = entry.meta.xattrs(xattrs);
        }
        let node = node::of_entry(&entry, xattrs, self.created);
        let mtime = entry.meta.mtime;
        let absolute = absolute(&path);
        let content = |file: &FileBody| Content {
            tree: self.tree.clone(),
            path,
            size: file.size,
            mtime,
            hash: file.hash.filter(|_| !file.changed),
        };
        self.tree.counts.offer(entry.file().map_or(0, |file| file.size));
        let open = entry.file().map(content);
        self.tree.counts.files(1);
        self.push(ReadSourceEntry { path: absolute, node, open });
    }

    /// The attributes of an entry, which is not opened for them.
    fn xattrs(&mut self, name: &[u8]) -> rustix::io::Result<Vec<Xattr>> {
        let root: BorrowedFd<'_> = self.tree.root.as_fd();
        let Some(way) = self.open.last_mut() else { return Ok(Vec::new()) };
        let fd = match way.fd.take() {
            Some(fd) => fd,
            None => openat::open_dir(root, &way.path)?,
        };
        let found = metadata::xattrs_at(&fd, name);
        way.fd = Some(fd);
        found
    }

    fn unreadable(&self, path: &[u8], errno: Errno) {
        let error = unreadable::stored("read the attributes in the snapshot of", absolute(path), errno).keeping_entry();
        self.tree.counts.problem(error);
    }

    fn push(&mut self, entry: ReadSourceEntry<Content>) {
        self.batch.push(Ok(entry));
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // Nobody listens if the backup failed.
        let _ = self.sender.send(batch);
    }
}
