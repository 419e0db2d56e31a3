//! Damage of a snapshot: which part of it, and how it differs from its manifest.

use std::path::Path;

/// A part of a snapshot that is not as its manifest records it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Damage<'a> {
    /// The name of the snapshot.
    pub snapshot: &'a str,
    /// The absolute path of the entry, as in the sources. For a manifest, the path of its file.
    pub path: &'a Path,
    /// For unreadable data: the first offset in the file that cannot be read.
    pub offset: Option<u64>,
    /// How it differs.
    pub why: Fault,
}

impl<'a> Damage<'a> {
    /// Damage at no particular offset.
    pub(crate) fn new(snapshot: &'a str, path: &'a Path, why: Fault) -> Self {
        Damage { snapshot, path, offset: None, why }
    }
}

/// A damaged part of a snapshot that is as its manifest records it again.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Repaired<'a> {
    /// The name of the snapshot.
    pub snapshot: &'a str,
    /// The absolute path of the entry, as in the sources.
    pub path: &'a Path,
    /// Where its content is from: the name of a snapshot, or the path of a directory.
    pub from: &'a Path,
}

/// How an entry differs from its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The manifest is damaged: some records are lost.
    Manifest,
    /// There is a tree, but no manifest.
    NoManifest,
    /// The tree does not have the entry.
    Missing,
    /// The tree has an entry that the manifest does not have.
    Unlisted,
    /// It is of another type.
    Type,
    /// A file of another size.
    Size,
    /// The content of a file does not have the recorded hash.
    Content,
    /// The device does not return the data, or the filesystem cannot read the entry.
    Unreadable,
    /// A symbolic link with another target.
    Target,
    /// A device with other numbers.
    Device,
    /// Another owner or group.
    Owner,
    /// Other permissions.
    Mode,
    /// Another modification time.
    Mtime,
}

impl Fault {
    /// The name in JSON. It is part of the output format: do not change it later.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Manifest => "manifest",
            Fault::NoManifest => "no-manifest",
            Fault::Missing => "missing",
            Fault::Unlisted => "unlisted",
            Fault::Type => "type",
            Fault::Size => "size",
            Fault::Content => "content",
            Fault::Unreadable => "unreadable",
            Fault::Target => "target",
            Fault::Device => "device",
            Fault::Owner => "owner",
            Fault::Mode => "mode",
            Fault::Mtime => "mtime",
        }
    }
}
