//! Why an entry was not copied, and whether the run goes on.

use super::context::Context;
use crate::content::copy;
use crate::error::Error;
use crate::tree::walk::absolute;
use crate::tree::writer;
use rustix::io::Errno;
use std::path::Path;

/// Why an entry was not copied.
pub(super) enum Failure {
    /// The run ends.
    Fatal(Error),
    /// The entry is skipped.
    Entry(Error),
    /// The same, because of what somebody else put in its place, or changed there, since it was looked at.
    Meanwhile(Error),
}

impl Failure {
    /// The error alone.
    pub(super) fn into_error(self) -> Error {
        match self {
            Failure::Fatal(error) | Failure::Entry(error) | Failure::Meanwhile(error) => error,
        }
    }
}

/// The result of copying an entry.
pub(super) type Attempt<T> = Result<T, Failure>;

/// A call on the source failed.
pub(super) fn source(path: &[u8], action: &str, errno: Errno) -> Failure {
    match errno {
        Errno::CANCELED => Failure::Fatal(Error::interrupted()),
        _ => Failure::Entry(Error::io(action, absolute(path), errno)),
    }
}

/// Extended attributes that the kernel does not hand out: the entry is copied without them.
pub(super) fn unread_xattrs(path: &[u8], errno: Errno) -> Error {
    let error = Error::io("read all extended attributes of", absolute(path), errno);
    match errno {
        Errno::TOOBIG => error.hint("their names exceed 64 KiB; the rest of the entry is copied"),
        _ => error.hint("the rest of the entry is copied"),
    }
}

/// The destination has extended attributes that the kernel does not list: those that its source does not have were kept.
pub(super) fn unlisted_xattrs(shown: &Path) -> Error {
    let error = Error::io("compare all extended attributes of", shown, Errno::TOOBIG);
    error.hint("their names exceed 64 KiB; those that the source does not have were kept")
}

/// A call on the destination failed: the run ends if every other entry would meet the same.
pub(super) fn target(context: &Context<'_>, path: &[u8], action: &str, errno: Errno) -> Failure {
    let error = Error::io(action, context.shown(path), errno);
    let error = match errno {
        Errno::CANCELED => return Failure::Fatal(Error::interrupted()),
        Errno::STALE => return Failure::Meanwhile(writer::changed_meanwhile(action, &context.shown(path))),
        Errno::EXIST => {
            let hint = "it was created by somebody else meanwhile and was not touched; run again";
            return Failure::Meanwhile(error.hint(hint));
        }
        Errno::NOSPC | Errno::DQUOT => error.hint("free some space"),
        Errno::PERM if context.creator.is_root() => {
            error.hint("the existing file or its directory may be immutable or append-only: see lsattr(1)")
        }
        _ => error,
    };
    let is_fatal = copy::is_fatal(errno) || context.devices.are_lost(errno);
    if is_fatal { Failure::Fatal(error) } else { Failure::Entry(error) }
}
