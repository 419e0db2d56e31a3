//! The inodes with several names. A further name is only ever a link to the first one of its inode in the same
//! snapshot: never to a file of the base, or to anything else that the stream may name.

use super::tree::{Tree, cannot_make};
use crate::error::{Error, Result};
use crate::fs::spill::Spill;
use crate::snapshot::manifest::{Body, Entry, FileBody, Meta, Stored, Time};
use crate::snapshot::repository::Staging;
use crate::snapshot::stream::damage;
use crate::tree::inode_map::InodeMap;
use crate::util::path::{join, split};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::os::fd::{AsFd as _, BorrowedFd};

/// The first names of inodes. Memory is bounded; the rest is in the staging area.
pub(super) struct Links {
    first: InodeMap<First>,
}

/// The first name of an inode, and what its further names have in common with it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct First {
    path: ByteBuf,
    /// The tree began with it, and it has its other names there.
    is_inherited: bool,
    state: State,
    stored: Option<Stored>,
    kept_here: bool,
    kept_xattrs: Vec<(ByteBuf, ByteBuf)>,
}

/// The part of a record that all names of an inode have in common.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    owner: (u32, u32, u32),
    mtime: Time,
    /// The size of a file.
    size: Option<u64>,
    /// The target of a link, or the numbers of a device.
    body: Option<Body>,
}

impl State {
    fn of(entry: &Entry) -> State {
        let Meta { mode, uid, gid, mtime, .. } = entry.meta;
        let size = entry.file().map(|file| file.size);
        let body = if size.is_none() { Some(entry.body.clone()) } else { None };
        State { owner: (mode, uid, gid), mtime, size, body }
    }
}

impl Links {
    pub(super) fn new(staging: &Staging) -> Result<Links> {
        let spill = staging.links.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?;
        Ok(Links { first: InodeMap::new(Spill::into(Some(spill))) })
    }

    /// The first name of an entry's inode, if another one came first.
    pub(super) fn first(&self, entry: &Entry) -> Result<Option<First>> {
        if !has_others(entry) {
            return Ok(None);
        }
        self.first.get(&entry.meta.inode()).map_err(cannot_remember)
    }

    /// Notes the first name of an inode that may have others: an entry of the directory `path`, as it was made.
    pub(super) fn note(&mut self, path: &[u8], entry: &Entry, is_inherited: bool) -> Result<()> {
        if !has_others(entry) {
            return Ok(());
        }
        let first = First {
            path: join(path, &entry.name).into(),
            is_inherited,
            state: State::of(entry),
            stored: entry.file().map(|file| file.stored),
            kept_here: entry.meta.kept_here,
            kept_xattrs: entry.meta.kept_xattrs.clone(),
        };
        self.first.insert(&entry.meta.inode(), &first).map_err(cannot_remember)
    }
}

impl First {
    /// Whether it is at this path.
    pub(super) fn is_at(&self, path: &[u8]) -> bool {
        self.path == path
    }

    /// Whether the tree began with this name, and with the links to it.
    pub(super) fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Makes a further name in the directory `dir`, which is the one at `above`.
    pub(super) fn link(&self, tree: &Tree, dir: BorrowedFd<'_>, above: &[u8], entry: &mut Entry) -> Result<()> {
        if self.state != State::of(entry) {
            return Err(damage("two names of an inode differ"));
        }
        let (directory, name) = split(&self.path);
        let made = tree
            .any_directory(directory)
            .and_then(|first| rustix::fs::linkat(first.as_fd(), name, dir, &entry.name, AtFlags::empty()));
        let is_file = matches!(entry.body, Body::File(_));
        match made {
            Ok(()) => {}
            // The tree could not take the node, so only the records have it.
            Err(Errno::NOENT) if self.kept_here && !is_file => {}
            Err(errno) => return Err(cannot_make(&join(above, &entry.name), errno)),
        }
        entry.meta.kept_here = self.kept_here;
        entry.meta.kept_xattrs.clone_from(&self.kept_xattrs);
        if let (Body::File(FileBody { stored, .. }), Some(first)) = (&mut entry.body, self.stored) {
            *stored = first;
        }
        Ok(())
    }
}

fn has_others(entry: &Entry) -> bool {
    entry.meta.nlink > 1 && entry.meta.ino != 0
}

fn cannot_remember(errno: Errno) -> Error {
    Error::failed("remember hard links").because(errno)
}
