//! The records as they stand in a block: those of [`super::record`], with names borrowed and directory paths shortened by
//! what they share with the directory before.

use super::record::{Body, Entry, Meta};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One record of a block.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Record<'a> {
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
        meta: Cow<'a, Meta>,
    },
    /// An entry of the directory that began last.
    Entry {
        /// The last component of its path.
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
        /// Its metadata.
        meta: Cow<'a, Meta>,
        /// What it is.
        body: Cow<'a, Body>,
    },
    /// Only at a block's beginning: the entries of this directory go on from the block before.
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

    /// The record at the beginning of `bytes`, and what follows it.
    pub(super) fn take_from(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        postcard::take_from_bytes(bytes).ok()
    }
}

/// Appends any value in postcard's wire format.
pub(super) fn encode(value: &impl Serialize, out: &mut Vec<u8>) -> Result<()> {
    match postcard::to_io(value, out) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::failed("encode a record of the manifest")),
    }
}
