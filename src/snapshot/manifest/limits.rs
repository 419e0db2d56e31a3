//! The size limits for the parts of a manifest, and reading within them. `docs/format.md` states the limits.
//!
//! A length in a file is only a claim: somebody may have written it to exhaust memory, and may have made the digests
//! fit. So a length is compared with the limit of its part and with the size of the file before it decides an
//! allocation. Memory is reserved as the bytes arrive, and a lack of memory is an error.

use super::layout::{damage, unreadable};
use crate::error::Error;
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use std::fmt;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The header.
pub(super) const HEADER: u64 = 8 << 20;
/// The totals, with the filesystems that were read.
pub(super) const TOTALS: u64 = 16 << 20;
/// The index.
pub(super) const INDEX: u64 = 256 << 20;
/// The paths and names of the index in memory, which are not shortened there.
pub(super) const KEYS: usize = 512 << 20;
/// One block, unpacked.
pub(super) const BLOCK: u64 = 64 << 20;
/// One record.
pub(super) const RECORD: usize = 16 << 20;
/// The path of one directory.
pub(crate) const PATH: usize = 4 << 20;
/// The number of attributes of one record. The kernel lists no more than fit into 64 KiB.
pub(super) const ATTRIBUTES: usize = 1 << 16;
/// The number of sources or tags of a snapshot.
const SOURCES: usize = 1 << 20;

/// How many bytes are read before more memory is reserved.
const STEP: u64 = 4 << 20;

/// The place of a part in a manifest, and its largest size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) limit: u64,
}

/// Reads a part; `name` and `path` are for messages.
pub(super) fn read(file: &File, extent: Extent, name: impl fmt::Display, path: &Path) -> Result<Vec<u8>, Error> {
    let Extent { offset, length, limit } = extent;
    if length > limit {
        return Err(damage(name, path, "it is larger than such a part can be"));
    }
    let mut bytes = Vec::new();
    let mut done = 0;
    while done < length {
        let step = (length - done).min(STEP);
        if bytes.try_reserve(step as usize).is_err() {
            return Err(no_memory(name, path));
        }
        bytes.resize((done + step) as usize, 0);
        let read = file.read_exact_at(&mut bytes[done as usize..], offset.saturating_add(done));
        read.map_err(|cause| unreadable(&name, path, cause))?;
        done += step;
    }
    Ok(bytes)
}

/// The error for a part that does not fit into memory.
pub(super) fn no_memory(name: impl fmt::Display, path: &Path) -> Error {
    unreadable(name, path, io::Error::from(io::ErrorKind::OutOfMemory))
}

/// Reads the attributes of a record.
pub(crate) fn attributes<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Few::<T, ATTRIBUTES>(PhantomData))
}

/// Reads the sources or the tags of a header.
pub(super) fn sources<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Few::<T, SOURCES>(PhantomData))
}

/// A sequence of at most `MOST` elements. In memory, an empty element takes many times its one byte in the file.
struct Few<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Few<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MOST} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = elements.next_element()? {
            if all.len() == MOST {
                return Err(A::Error::custom("too many elements"));
            }
            all.push(element);
        }
        Ok(all)
    }
}
