//! Failures of the source, and attributes that could not be read or compared. The words for failures of the destination
//! are in `tree::writer`.
//!
//! Refused metadata is in `not_kept`: a copy counts it by kind and reports each kind once, because the destination
//! refuses it for most entries. A restore reports it for each entry, which then is not as in the snapshot.

use super::context::Context;
use crate::error::Error;
use crate::fs::open_files::is_exhausted;
use crate::tree::walk::{Directory, absolute};
use crate::tree::writer::{Failure, Target as _};
use rustix::io::Errno;

/// A call on the source failed.
pub(super) fn source(path: &[u8], action: &str, errno: Errno) -> Failure {
    match errno {
        Errno::CANCELED => Failure::Fatal(Error::interrupted()),
        _ if is_exhausted(errno) => Failure::Fatal(Error::io(action, absolute(path), errno)),
        _ => Failure::Entry(Error::io(action, absolute(path), errno)),
    }
}

/// Reports that some extended attributes of a source could not be read, so the entry was copied without them.
pub(super) fn report_unread(context: &Context<'_>, path: &[u8], errno: Errno) {
    let error = Error::io("read all extended attributes of", absolute(path), errno);
    context.report(&match errno {
        Errno::TOOBIG => error.hint("their names exceed 64 KiB; the rest of the entry is copied"),
        _ => error.hint("the rest of the entry is copied"),
    });
}

/// Reports that some extended attributes of a source entry could not be read, unless the entry was deleted meanwhile.
pub(super) fn report_unread_of<P>(context: &Context<'_>, directory: &Directory<P>, name: &[u8], unread: Option<Errno>) {
    if let Some(errno) = unread.filter(|errno| *errno != Errno::NOENT) {
        report_unread(context, &directory.join(name), errno);
    }
}

/// Reports that an entry of the destination has more names of extended attributes than the kernel lists. Those that its
/// source does not have still exist.
pub(super) fn report_unlisted(context: &Context<'_>, path: &[u8]) {
    let error = Error::io("compare all extended attributes of", context.shown(path), Errno::TOOBIG);
    context.report(&error.hint("their names exceed 64 KiB; those that the source does not have were kept"));
}
