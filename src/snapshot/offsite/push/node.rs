//! Entries of a manifest as restic's nodes, as restic would have made them of the live source.

use crate::fs::metadata::Xattr;
use crate::snapshot::manifest::{Body, Entry, Meta, Time};
use rustic_core::jiff::Timestamp;
use rustic_core::repofile::{Metadata, Node, NodeType};
use rustix::fs::{FileType, makedev};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The node of a directory.
pub(super) fn of_directory(name: &[u8], meta: &Meta, xattrs: Vec<Xattr>, now: Time) -> Node {
    let settled = Meta { recheck: false, ..meta.clone() };
    let node = Metadata { size: 0, links: 0, device_id: 0, ..metadata(&settled, xattrs, now) };
    Node::new_node(OsStr::from_bytes(name), NodeType::Dir, node)
}

/// The node of anything else.
pub(super) fn of_entry(entry: &Entry, xattrs: Vec<Xattr>, now: Time) -> Node {
    let (kind, size) = match &entry.body {
        Body::File(file) => (NodeType::File, file.size),
        Body::Symlink(target) => (NodeType::from_link(Path::new(OsStr::from_bytes(target))), target.len() as u64),
        Body::Device(major, minor) => {
            let device = makedev(*major, *minor);
            let is_block = FileType::from_raw_mode(entry.meta.mode) == FileType::BlockDevice;
            (if is_block { NodeType::Dev { device } } else { NodeType::Chardev { device } }, 0)
        }
        Body::Fifo => (NodeType::Fifo, 0),
        Body::Socket => (NodeType::Socket, 0),
    };
    let node = Metadata { size, ..metadata(&entry.meta, xattrs, now) };
    Node::new_node(OsStr::from_bytes(&entry.name), kind, node)
}

fn metadata(meta: &Meta, xattrs: Vec<Xattr>, now: Time) -> Metadata {
    let mut node = Metadata {
        mode: Some(mode(meta.mode)),
        mtime: time(meta.mtime),
        // The default of restic too. A manifest has no access times.
        atime: time(meta.mtime),
        // The content of such a file may change without its change time, so the next backup must not find this one.
        ctime: time(if meta.recheck { now } else { meta.ctime }),
        uid: Some(meta.uid),
        gid: Some(meta.gid),
        user: None,
        group: None,
        inode: meta.ino,
        // It only distinguishes hard links.
        device_id: if meta.nlink > 1 { meta.dev } else { 0 },
        size: 0,
        links: meta.nlink,
        ..Metadata::default()
    };
    if !xattrs.is_empty() {
        node.extended_attributes = attributes(xattrs);
    }
    node
}

fn time(time: Time) -> Option<Timestamp> {
    Timestamp::new(time.seconds, i32::try_from(time.nanos).ok()?).ok()
}

/// The library does not export the type of an attribute, but reads a list of it.
fn attributes<T: serde::de::DeserializeOwned + Default>(xattrs: Vec<Xattr>) -> T {
    let list = xattrs.iter().map(|(name, value)| {
        serde_json::json!({ "name": String::from_utf8_lossy(name), "value": data_encoding::BASE64.encode(value) })
    });
    serde_json::from_value(list.collect()).unwrap_or_default()
}

/// A mode as Go has it, the language of restic.
fn mode(mode: u32) -> u32 {
    let kind = match FileType::from_raw_mode(mode) {
        FileType::Directory => 1 << 31,
        FileType::Symlink => 1 << 27,
        FileType::BlockDevice => 1 << 26,
        FileType::CharacterDevice => 1 << 26 | 1 << 21,
        FileType::Fifo => 1 << 25,
        FileType::Socket => 1 << 24,
        _ => 0,
    };
    let bits = [(0o4000, 1 << 23), (0o2000, 1 << 22), (0o1000, 1 << 20)];
    let bits = bits.into_iter().filter(|(bit, _)| mode & bit != 0).fold(0, |all, (_, bit)| all | bit);
    mode & 0o777 | kind | bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_written_as_in_go() {
        assert_eq!(mode(0o100_644), 0o644);
        assert_eq!(mode(0o104_755), 0o755 | 1 << 23);
        assert_eq!(mode(0o041_777), 0o777 | 1 << 31 | 1 << 20);
        assert_eq!(mode(0o020_600), 0o600 | 1 << 26 | 1 << 21);
    }

    #[test]
    fn attributes_keep_any_bytes() {
        let meta = Meta { has_xattrs: true, ..Meta::default() };
        let node = metadata(&meta, vec![(b"user.a".to_vec(), vec![0, 255])], Time::default());
        assert_eq!(node.extended_attributes.len(), 1);
        let found = &node.extended_attributes[0];
        assert_eq!((found.name.as_str(), found.value.as_deref()), ("user.a", Some(&[0, 255][..])));
    }
}
