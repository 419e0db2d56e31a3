//! The records of a manifest. Their order of fields is the format: `docs/format.md` describes it, and a frozen sample
//! under `tests/` guards it.
//!
//! Records are encoded in postcard's wire format; read `docs/format.md` before you change a field.

use super::limits;
use crate::fs::identity::Identity;
use crate::fs::metadata::{self, FileAttr, Xattr};
use crate::fs::status::Status;
pub use crate::fs::status::Time;
use crate::tree::inode_map;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::collections::BTreeMap;

/// The first record: the identity of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The snapshot's name, which is also the name of its directory.
    pub name: String,
    /// The time when it was begun.
    pub created: Time,
    /// The program and version that wrote it.
    pub program: String,
    /// The machine's name.
    pub host: String,
    /// The absolute paths of the sources as requested, in order, without duplicates.
    #[serde(deserialize_with = "limits::sources")]
    pub sources: Vec<ByteBuf>,
    /// The tags given by the user.
    #[serde(deserialize_with = "limits::sources")]
    pub tags: Vec<String>,
    /// The snapshot that it was compared with.
    pub parent: Option<String>,
}

/// One record of the stream.
///
/// A directory comes before its entries, and the entries come before its subdirectories. Directories are in the order
/// of their paths, compared component by component as bytes. Entries are in the order of their names as bytes.
/// Subdirectories have records of their own and are not entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// A directory begins.
    Directory(Directory),
    /// An entry of the directory that began last.
    Entry(Entry),
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// The absolute path without its leading slash; empty for the root.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// Only on the way to a source: it has no entries except those that lead to a source.
    pub scaffold: bool,
    /// Its metadata.
    pub meta: Meta,
}

/// Anything but a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The last component of its path.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// Its metadata.
    pub meta: Meta,
    /// Its type, and its content.
    pub body: Body,
}

/// Metadata of the source at the time of the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Type and permission bits as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Birth, if the filesystem has it.
    pub btime: Option<Time>,
    /// `st_dev` of the source.
    pub dev: u64,
    /// Inode number in the source.
    pub ino: u64,
    /// Number of hard links in the source.
    pub nlink: u64,
    /// Whether the source has extended attributes or ACLs. If neither the tree nor this record has any, they could not
    /// be read.
    pub has_xattrs: bool,
    /// The extended attributes (including ACLs) that the snapshot's own tree could not take: name, value.
    #[serde(deserialize_with = "limits::attributes")]
    pub kept_xattrs: Vec<(ByteBuf, ByteBuf)>,
    /// Whether the tree could not take the owner, the mode, or the node itself, so that only this record has them.
    pub kept_here: bool,
    /// The flags that chattr(1) sets, as `FS_IOC_GETFLAGS` returns them: those in [`crate::fs::metadata::FLAGS`].
    /// `None` if the filesystem has none, they could not be read from the source, or the manifest is of version 1.
    pub flags: Option<u32>,
    /// Project id. `None` as above.
    pub project: Option<u32>,
    /// Whether the inode may change again without a change of `ctime`, or could not be read completely. It then counts
    /// as changed next time. False in manifests before version 3, where the reader must decide.
    pub recheck: bool,
}

impl Meta {
    /// The record of an inode's metadata, from its status.
    pub fn of(status: &Status, has_xattrs: bool) -> Meta {
        let Status { mode, uid, gid, mtime, ctime, btime, dev, ino, nlink, .. } = *status;
        Meta { mode, uid, gid, mtime, ctime, btime, dev, ino, nlink, has_xattrs, ..Meta::default() }
    }

    /// This metadata with flags and a project id.
    pub fn with(self, fileattr: FileAttr) -> Meta {
        let FileAttr { flags, project } = fileattr;
        Meta { flags, project, ..self }
    }

    /// The identity of the recorded inode during a run. All names of one state of an inode have the same `ctime`.
    pub(crate) fn inode(&self) -> inode_map::Identity {
        inode_map::Identity { dev: self.dev, ino: self.ino, since: self.ctime }
    }

    /// The extended attributes of the inode, sorted by name: those of the snapshot's tree and those of this record. If
    /// both have one, that of the record counts.
    pub(crate) fn xattrs(&self, tree: Vec<Xattr>) -> Vec<Xattr> {
        let mut all: BTreeMap<_, _> = tree.into_iter().collect();
        // Manifests of earlier versions have names that are only aliases of other metadata.
        let kept = self.kept_xattrs.iter().filter(|(name, _)| !metadata::is_alias(name));
        all.extend(kept.map(|(name, value)| (name.to_vec(), value.to_vec())));
        all.into_iter().collect()
    }

    /// The flags and the project id.
    pub fn fileattr(&self) -> FileAttr {
        FileAttr { flags: self.flags, project: self.project }
    }
}

/// The type of an entry, and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// A regular file.
    File(FileBody),
    /// A symbolic link and its target.
    Symlink(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A character or block device (the mode shows which): major, minor.
    Device(u32, u32),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBody {
    /// Apparent size in bytes.
    pub size: u64,
    /// Bytes of it in holes and in ranges that were never written.
    pub holes: u64,
    /// BLAKE3 of the content, if hashes were requested.
    pub hash: Option<[u8; 32]>,
    /// How the content came into the snapshot.
    pub stored: Stored,
    /// The file changed while it was read, in each try: the content may be a mixture.
    pub changed: bool,
}

/// How a file's content came into a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stored {
    /// It shares extents with the source or an earlier snapshot.
    Cloned,
    /// It was written anew.
    Copied,
    /// It is so small that the filesystem keeps it beside its metadata, where nothing can be shared.
    Inline,
}

/// A filesystem that entries of a snapshot were read from. It shows whether another filesystem with equal inode numbers
/// and times was mounted in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// `st_dev` of its entries, as their records have it.
    pub dev: u64,
    /// The identity of the filesystem across mounts and reboots.
    pub identity: Identity,
}

/// The sums of a snapshot. They are at the manifest's end, so that a listing need not read the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Totals {
    /// Regular files. Each name of a hard link counts.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, named pipes, sockets.
    pub others: u64,
    /// Apparent size of the files. Hard links count once.
    pub bytes: u64,
    /// Bytes that were written anew for it: copied or inline.
    pub written_bytes: u64,
    /// Entries that were skipped or kept with a defect.
    pub errors: u64,
}

impl Header {
    /// Whether its time is in the range of the calendar.
    pub(super) fn is_dated(&self) -> bool {
        self.created.is_in_calendar()
    }
}

impl Time {
    /// Whether a snapshot can have this time: in the years 1970 to 9999.
    pub(crate) fn is_in_calendar(&self) -> bool {
        (0..253_402_300_800).contains(&self.seconds) && self.nanos < 1_000_000_000
    }
}

impl Totals {
    /// Entries of every type.
    pub fn entries(&self) -> u64 {
        [self.dirs, self.symlinks, self.others].into_iter().fold(self.files, u64::saturating_add)
    }
}

impl Item {
    /// Its metadata.
    pub(crate) fn meta(&self) -> &Meta {
        match self {
            Item::Directory(directory) => &directory.meta,
            Item::Entry(entry) => &entry.meta,
        }
    }

    /// Its metadata.
    pub(crate) fn meta_mut(&mut self) -> &mut Meta {
        match self {
            Item::Directory(directory) => &mut directory.meta,
            Item::Entry(entry) => &mut entry.meta,
        }
    }
}

impl Entry {
    /// The file's part, if it is a regular file.
    pub fn file(&self) -> Option<&FileBody> {
        match &self.body {
            Body::File(file) => Some(file),
            _ => None,
        }
    }

    /// About how many bytes of memory its parts of variable length take.
    pub(crate) fn bytes(&self) -> usize {
        let target = if let Body::Symlink(target) = &self.body { target.len() } else { 0 };
        self.name.len() + target + bytes_of(&self.meta.kept_xattrs)
    }
}

/// Drops the attributes that only the manifest would have from a record, if they are too many or too long for it.
/// Returns whether it dropped any.
pub(crate) fn shorten(item: &mut Item) -> bool {
    let meta = item.meta_mut();
    let kept = &mut meta.kept_xattrs;
    let is_too_long = kept.len() > limits::ATTRIBUTES || bytes_of(kept) > limits::RECORD / 2;
    if is_too_long {
        kept.clear();
        // The record lacks something: the next run looks at the entry again.
        meta.ino = 0;
    }
    is_too_long
}

fn bytes_of(xattrs: &[(ByteBuf, ByteBuf)]) -> usize {
    xattrs.iter().map(|(name, value)| name.len() + value.len() + 8).sum()
}
