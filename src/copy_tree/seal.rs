//! Seals an inode that has all its names: sets flags that would prevent adding names, and the project id.

use super::context::Context;
use crate::fs::metadata::{FileAttr, Refused};
use crate::fs::openat;
use crate::tree::writer::{First, Target as _};
use std::os::fd::AsFd;

/// Seals an inode with several names, found by its first name.
pub(super) fn first(context: &Context<'_>, first: &First) {
    let Some(seal) = first.seal else { return };
    let opened = openat::open_dir(context.plan.top.as_fd(), &first.directory).and_then(|dir| first.open(dir));
    match opened {
        Ok(opened) => file(context, opened, seal.fileattr(), &first.path()),
        Err(errno) => {
            let failure = context.failure(&first.path(), "set the flags of", errno);
            context.report(&failure.into_error());
        }
    }
}

/// Seals an open file that has all its names.
pub(super) fn file(context: &Context<'_>, file: impl AsFd, wanted: FileAttr, path: &[u8]) {
    let refused = Refused { fileattr: wanted.seal(file), ..Refused::default() };
    context.not_kept.refused(&refused, false, || context.shown(path));
}
