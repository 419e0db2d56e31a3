//! The records as they are in a block. They are those of [`super::record`] with borrowed names, and directory paths
//! without the part that they share with the directory before. `older` has the fields of older versions.

use super::older::{Meta1, Meta2};
use super::record::{Body, Entry, Meta};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One record of a block. `M`: the metadata of its version.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Record<'a, M: Clone = Meta> {
    /// A directory begins.
    Directory {
        /// How many first bytes its path shares with the directory before it in this block; as many as possible.
        shared: u32,
        /// The rest of its path.
        #[serde(borrow, with = "serde_bytes")]
        suffix: &'a [u8],
        /// See [`super::Directory::scaffold`].
        scaffold: bool,
        /// Its metadata.
        meta: Cow<'a, M>,
    },
    /// An entry of the directory that began last.
    Entry {
        /// The last component of its path.
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
        /// Its metadata.
        meta: Cow<'a, M>,
        /// Its type, and its content.
        body: Cow<'a, Body>,
    },
    /// Only at a block's beginning: the entries of this directory continue from the block before.
    Continued(#[serde(borrow, with = "serde_bytes")] &'a [u8]),
}

impl<'a> Record<'a> {
    /// The record of an entry.
    pub(super) fn entry(entry: &'a Entry) -> Self {
        Record::Entry { name: &entry.name, meta: Cow::Borrowed(&entry.meta), body: Cow::Borrowed(&entry.body) }
    }

    /// Appends the record to a block.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        encode(self, out)
    }

    /// The record at the beginning of `bytes`, and the rest of `bytes`. `version` is their version of the format.
    pub(super) fn take_from(bytes: &'a [u8], version: u32) -> Option<(Self, &'a [u8])> {
        match version {
            1 => Self::take_older::<Meta1>(bytes),
            2 => Self::take_older::<Meta2>(bytes),
            _ => postcard::take_from_bytes(bytes).ok(),
        }
    }

    fn take_older<M: Clone + Into<Meta> + Deserialize<'a> + 'a>(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (record, rest) = postcard::take_from_bytes::<Record<'a, M>>(bytes).ok()?;
        Some((Self::from_older(record), rest))
    }

    fn from_older<M: Clone + Into<Meta>>(record: Record<'a, M>) -> Self {
        let meta = |meta: Cow<'_, M>| Cow::Owned(meta.into_owned().into());
        match record {
            Record::Directory { shared, suffix, scaffold, meta: old } => {
                Record::Directory { shared, suffix, scaffold, meta: meta(old) }
            }
            Record::Entry { name, meta: old, body } => Record::Entry { name, meta: meta(old), body },
            Record::Continued(path) => Record::Continued(path),
        }
    }
}

/// Appends any value in postcard's wire format.
pub(super) fn encode(value: &impl Serialize, out: &mut Vec<u8>) -> Result<()> {
    match postcard::to_io(value, out) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::failed("encode a record of the manifest")),
    }
}
