//! The digest of a snapshot's records. Both sides compute it; equal digests show that the receiver has the records of
//! the sender. It skips the fields that depend on the repository: how content came into the tree, and what the tree
//! could not take.

use super::op::Digest;
use crate::error::{Error, Result};
use crate::snapshot::manifest::{Body, FileBody, Item, Meta};
use serde_bytes::Bytes;

/// The digest of the records so far.
#[derive(Clone, Default)]
pub(crate) struct RecordDigest {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl RecordDigest {
    /// Counts a record in.
    pub(crate) fn add(&mut self, item: &Item) -> Result<()> {
        self.buffer.clear();
        let (kind, name, meta, scaffold, body) = match item {
            Item::Directory(directory) => (0_u8, &directory.path, &directory.meta, directory.scaffold, None),
            Item::Entry(entry) => (1, &entry.name, &entry.meta, false, Some(&entry.body)),
        };
        let Meta { mode, uid, gid, mtime, ctime, btime, dev, ino, nlink, has_xattrs, flags, project, recheck, .. } =
            meta;
        let owner = (mode, uid, gid, mtime, ctime, btime);
        let inode = (dev, ino, nlink, has_xattrs, flags, project, recheck);
        let content = match body {
            None => (None, None, None),
            Some(Body::File(FileBody { size, holes, hash, changed, .. })) => {
                (Some((size, holes, hash, changed)), None, None)
            }
            Some(Body::Symlink(target)) => (None, Some(Bytes::new(target)), None),
            Some(Body::Device(major, minor)) => (None, None, Some((major, minor))),
            Some(Body::Fifo | Body::Socket) => (None, None, None),
        };
        postcard::to_io(&(kind, Bytes::new(name), scaffold, owner, inode, content), &mut self.buffer)
            .map_err(|_| Error::failed("encode a record"))?;
        self.hasher.update(&self.buffer);
        Ok(())
    }

    /// The digest of all records.
    pub(crate) fn finish(&self) -> Digest {
        *self.hasher.finalize().as_bytes()
    }
}
