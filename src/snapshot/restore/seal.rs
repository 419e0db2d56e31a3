//! What an inode gets last: flags under which nothing can be renamed, linked or written (immutable, append-only), and a
//! project id, which decides in which directories it may be.

use super::context::Context;
use super::outcome::report;
use crate::fs::metadata::{FileAttr, Refused};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Seals an open file that is in its place under all its names. Counts the failure, which is reported.
pub(super) fn file(context: &Context<'_>, file: impl AsFd, wanted: FileAttr, shown: impl FnOnce() -> PathBuf) -> u64 {
    let fileattr = wanted.seal(file);
    report(context, &Refused { fileattr, ..Refused::default() }, shown)
}
