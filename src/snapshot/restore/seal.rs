//! What an inode gets last: flags under which nothing can be renamed, linked or written (immutable, append-only), and a
//! project id, which decides in which directories it may be.

use super::Context;
use super::outcome::report;
use super::place::Place;
use crate::fs::metadata::{FileAttr, Refused};
use crate::snapshot::manifest::Entry;
use crate::tree::writer;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Whether a file that was made in `place` does not have all of that by its making.
pub(super) fn is_wanted(place: &Place, entry: &Entry) -> bool {
    writer::is_sealed(entry.meta.fileattr(), place.ground.project)
}

/// Seals an open file that is in its place under all its names. Counts the failure, which is reported.
pub(super) fn file(context: &Context<'_>, file: impl AsFd, wanted: FileAttr, shown: impl FnOnce() -> PathBuf) -> u64 {
    let fileattr = wanted.seal(file);
    report(context, &Refused { fileattr, ..Refused::default() }, shown)
}
