//! How one entry differs between two snapshots. The records decide; extended attributes are compared in the trees, and
//! only if the inode or its ctime differs.

use crate::error::Error;
use crate::fs::identity::Identity;
use crate::fs::metadata;
use crate::fs::openat;
use crate::monitor::Change;
use crate::snapshot::devices::Devices;
use crate::snapshot::manifest::{Body, FileBody, Item, Meta, Reader};
use crate::snapshot::recorded::{Recorded, recorded};
use crate::tree::walk::absolute;
use crate::util::path::join;
use rustix::fs::FileType;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

/// One side of the comparison.
pub(crate) struct Side<'a> {
    identities: Identities<'a>,
    /// The tree of the snapshot. `None`: the records have all attributes.
    tree: Option<&'a OwnedFd>,
    /// The directory that was opened last.
    open: Option<(Vec<u8>, OwnedFd)>,
}

/// The identities of the filesystems that the records are from.
enum Identities<'a> {
    Recorded(HashMap<u64, Identity>),
    Live(&'a Devices),
}

impl<'a> Side<'a> {
    /// A snapshot.
    pub(crate) fn snapshot(manifest: &Reader, tree: &'a OwnedFd) -> Self {
        let identities = manifest.origins().iter().map(|origin| (origin.dev, origin.identity)).collect();
        Side { identities: Identities::Recorded(identities), tree: Some(tree), open: None }
    }

    /// The sources as they are now.
    pub(crate) fn live(devices: &'a Devices) -> Self {
        Side { identities: Identities::Live(devices), tree: None, open: None }
    }

    /// The identity of the filesystem of a record.
    pub(crate) fn identity(&self, meta: &Meta) -> Option<Identity> {
        match &self.identities {
            Identities::Recorded(known) => known.get(&meta.dev).copied(),
            Identities::Live(devices) => devices.known_identity(meta.dev),
        }
    }

    /// The extended attributes of a record.
    fn recorded(&mut self, directory: &[u8], item: &Item) -> rustix::io::Result<Recorded> {
        let meta = meta(item);
        let Some(tree) = self.tree else { return recorded(meta, || (Vec::new(), None)) };
        if self.open.as_ref().is_none_or(|(path, _)| path != directory) {
            self.open = Some((directory.to_vec(), openat::open_dir(tree.as_fd(), directory)?));
        }
        let Some((_, opened)) = &self.open else { return recorded(meta, || (Vec::new(), None)) };
        recorded(meta, || match item {
            Item::Directory(_) => metadata::readable_xattrs(opened),
            Item::Entry(entry) => metadata::readable_xattrs_at(opened, &entry.name),
        })
    }
}

/// Compares records of the same path.
pub(crate) struct Judge<'a> {
    pub(crate) old: Side<'a>,
    pub(crate) new: Side<'a>,
}

impl Judge<'_> {
    /// How an entry differs; `None`: not at all. Both records have the same directory and name. Attributes that cannot
    /// be read are passed to `failed` and count as equal.
    pub(crate) fn judge(
        &mut self,
        directory: &[u8],
        (old, new): (&Item, &Item),
        failed: &mut dyn FnMut(&Error),
    ) -> Option<Change> {
        let (was, is) = (meta(old), meta(new));
        if kind(was) != kind(is) {
            return Some(Change::Type);
        }
        let is_same_inode = self.is_same_inode(was, is);
        if let (Item::Entry(was_entry), Item::Entry(is_entry)) = (old, new) {
            let has_changed = match (&was_entry.body, &is_entry.body) {
                (Body::File(a), Body::File(b)) => {
                    let differ = differ((a, was), (b, is));
                    let is_untouched = is_same_inode && (was.mtime, was.ctime) == (is.mtime, is.ctime);
                    // An inode that may have changed under the same ctime proves nothing.
                    if differ && is_untouched && a.size == b.size && !was.recheck && !a.changed {
                        return Some(Change::Rotten);
                    }
                    differ
                }
                (a, b) => a != b,
            };
            if has_changed {
                return Some(Change::Content);
            }
        }
        let is_unchanged = state(old) == state(new)
            && agree(was.flags, is.flags)
            && agree(was.project, is.project)
            && (is_same_inode && was.ctime == is.ctime || self.has_same_xattrs(directory, old, new, failed));
        (!is_unchanged).then_some(Change::Metadata)
    }

    /// Whether both records are of one inode, as far as inode numbers and birth times show.
    fn is_same_inode(&self, old: &Meta, new: &Meta) -> bool {
        let is_same_filesystem = match (self.old.identity(old), self.new.identity(new)) {
            (Some(old), Some(new)) => old == new,
            _ => old.dev == new.dev,
        };
        old.ino == new.ino && old.ino != 0 && is_same_filesystem && agree(old.btime, new.btime)
    }

    fn has_same_xattrs(&mut self, directory: &[u8], old: &Item, new: &Item, failed: &mut dyn FnMut(&Error)) -> bool {
        if !meta(old).has_xattrs || !meta(new).has_xattrs {
            return meta(old).has_xattrs == meta(new).has_xattrs;
        }
        match (self.old.recorded(directory, old), self.new.recorded(directory, new)) {
            (Ok(old), Ok(new)) => !old.is_complete || !new.is_complete || old.xattrs == new.xattrs,
            (Err(errno), _) | (_, Err(errno)) => {
                let path = match old {
                    Item::Directory(_) => absolute(directory),
                    Item::Entry(entry) => absolute(&join(directory, &entry.name)),
                };
                failed(&Error::io("read the extended attributes in a snapshot of", path, errno));
                true
            }
        }
    }
}

/// Whether the content of two files differs. Without hashes, size and mtime decide, as in rsync's quick check.
fn differ((a, was): (&FileBody, &Meta), (b, is): (&FileBody, &Meta)) -> bool {
    match (a.hash, b.hash) {
        _ if a.size != b.size => true,
        (Some(a), Some(b)) => a != b,
        // Empty files have the same content.
        _ => a.size > 0 && was.mtime != is.mtime,
    }
}

/// The metadata that one system call shows. The mtime of a directory changes with every new or removed entry, which has
/// a line of its own, so it does not count.
pub(crate) fn state(item: &Item) -> (u32, u32, u32, i64, u32) {
    let Meta { mode, uid, gid, mtime, .. } = *meta(item);
    match item {
        Item::Directory(_) => (mode & 0o7777, uid, gid, 0, 0),
        Item::Entry(_) => (mode & 0o7777, uid, gid, mtime.seconds, mtime.nanos),
    }
}

/// A directory's record comes before its entries, so it compares as the empty name.
pub(crate) fn name(item: &Item) -> &[u8] {
    match item {
        Item::Directory(_) => b"",
        Item::Entry(entry) => &entry.name,
    }
}

/// The metadata of a record.
pub(crate) fn meta(item: &Item) -> &Meta {
    match item {
        Item::Directory(directory) => &directory.meta,
        Item::Entry(entry) => &entry.meta,
    }
}

fn kind(meta: &Meta) -> FileType {
    FileType::from_raw_mode(meta.mode)
}

/// Whether two facts are equal, as far as both are known.
fn agree<T: PartialEq>(old: Option<T>, new: Option<T>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old == new,
        _ => true,
    }
}
