//! Names that are hashes of content: those of the files of a store, and the IDs of blobs.

use bytes::Bytes;
use rustic_core::{ErrorKind, FileType, Id, RusticError, RusticResult};
use std::fmt;

/// Something does not have the content of its name. This says what.
#[derive(Debug)]
pub(super) struct WrongHash(String);

impl fmt::Display for WrongHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the content of {} does not have its hash", self.0)
    }
}

impl std::error::Error for WrongHash {}

/// The name of each file is the SHA-256 of its content. Only the config has a name of its own. Packs are left alone:
/// each part of one has a hash, and a damaged part must not make the others unreadable.
pub(super) fn file(tpe: FileType, id: &Id, content: Bytes) -> RusticResult<Bytes> {
    let is_named_by_hash = !matches!(tpe, FileType::Config | FileType::Pack);
    let name = || format!("{}/{}", tpe.dirname(), id.to_hex().as_str());
    if is_named_by_hash { with_its_hash(id, content, name) } else { Ok(content) }
}

/// The content of a blob, with an ID that is its SHA-256.
pub(super) fn blob(id: &Id, content: Bytes) -> RusticResult<Bytes> {
    with_its_hash(id, content, || "a blob".into())
}

fn with_its_hash(id: &Id, content: Bytes, name: impl Fn() -> String) -> RusticResult<Bytes> {
    match id.blob_matches_reader(content.len() as u64, &mut &content[..]) {
        true => Ok(content),
        false => Err(RusticError::with_source(ErrorKind::Verification, "something is damaged", WrongHash(name()))),
    }
}
