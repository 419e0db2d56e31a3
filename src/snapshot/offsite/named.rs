//! The names of files in a store, which are hashes of their content.

use bytes::Bytes;
use rustic_core::{ErrorKind, FileType, Id, RusticError, RusticResult};
use std::fmt;

/// A file of the store does not have the content of its name, which this holds.
#[derive(Debug)]
pub(super) struct Misnamed(String);

impl fmt::Display for Misnamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the content of {} does not have its hash", self.0)
    }
}

impl std::error::Error for Misnamed {}

/// The name of each file is the SHA-256 of its content. Only the config has a name of its own. Packs are left alone:
/// each part of one has a hash, and a damaged part must not make the others unreadable.
pub(super) fn with_its_hash(tpe: FileType, id: &Id, content: Bytes) -> RusticResult<Bytes> {
    let is_named_by_hash = !matches!(tpe, FileType::Config | FileType::Pack);
    if is_named_by_hash && !id.blob_matches_reader(content.len() as u64, &mut &content[..]) {
        let name = Misnamed(format!("{}/{}", tpe.dirname(), id.to_hex().as_str()));
        return Err(RusticError::with_source(ErrorKind::Verification, "a file is damaged", name));
    }
    Ok(content)
}
