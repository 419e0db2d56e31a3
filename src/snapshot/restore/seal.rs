//! The last metadata of an inode: flags that forbid renaming, linking or writing (immutable, append-only), and a
//! project id, which decides in which directories the inode may be.

use super::context::Context;
use super::outcome::report;
use crate::fs::metadata::{FileAttr, Refused};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Seals an open file that is in its place under all its names. Returns the number of failures, which are reported.
pub(super) fn file(context: &Context<'_>, file: impl AsFd, wanted: FileAttr, shown: impl FnOnce() -> PathBuf) -> u64 {
    let fileattr = wanted.seal(file);
    report(context, &Refused { fileattr, ..Refused::default() }, shown)
}
