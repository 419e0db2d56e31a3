//! The identity of snapshots: a digest of their manifest, which shows whether two repositories have the same snapshot.
//! The manifest of a snapshot that came from another repository differs in what its own tree could not take. So the
//! identity that it has at its origin is kept in `.pleach/origin/NAME`.

use super::handle::Repository;
use crate::error::Result;
use data_encoding::HEXLOWER;
use rustix::fs::{Mode, OFlags};
use std::io::Read;

/// The directory of these files, in the control directory.
pub(super) const ORIGIN: &str = "origin";
/// The beginning of such a file.
const SENTENCE: &str = "origin 1 ";

/// The identity of a snapshot.
///
/// # Errors
/// If its manifest cannot be read.
pub(crate) fn identity(repository: &Repository, name: &str) -> Result<[u8; 32]> {
    match noted(repository, name) {
        Some(identity) => Ok(identity),
        None => Ok(repository.manifest(name)?.identity()),
    }
}

fn noted(repository: &Repository, name: &str) -> Option<[u8; 32]> {
    let dir = repository.control.dir_if_any(ORIGIN)?;
    let mut text = String::new();
    dir.file(name, OFlags::RDONLY, Mode::empty()).ok()?.take(256).read_to_string(&mut text).ok()?;
    parse(&text)
}

/// Records the identity of a snapshot that is about to be published.
pub(crate) fn note_identity(repository: &Repository, name: &str, identity: &[u8; 32]) -> Result<()> {
    let dir = repository.control.make_dir(ORIGIN)?;
    dir.unlink(name)?;
    dir.write_new(name, format(identity)).map(|_| ())
}

pub(super) fn format(identity: &[u8; 32]) -> String {
    format!("{SENTENCE}{}\n", HEXLOWER.encode(identity))
}

pub(super) fn parse(text: &str) -> Option<[u8; 32]> {
    let digits = text.trim_end().strip_prefix(SENTENCE)?;
    HEXLOWER.decode(digits.as_bytes()).ok()?.try_into().ok()
}
