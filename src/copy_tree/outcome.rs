//! Why an entry was not copied, and whether the run goes on.

use super::context::Context;
use crate::copy;
use crate::error::Error;
use crate::walk::absolute;
use rustix::io::Errno;

/// Why an entry was not copied.
pub(super) enum Failure {
    /// The run ends.
    Fatal(Error),
    /// The entry is left out.
    Entry(Error),
}

/// The result of copying an entry.
pub(super) type Attempt<T> = Result<T, Failure>;

/// A call on the source failed.
pub(super) fn source(path: &[u8], action: &str, errno: Errno) -> Failure {
    match errno {
        Errno::CANCELED => Failure::Fatal(super::interrupted()),
        _ => Failure::Entry(Error::io(action, absolute(path), errno)),
    }
}

/// A call on the destination failed: the run ends if every other entry would meet the same.
pub(super) fn target(context: &Context<'_>, path: &[u8], action: &str, errno: Errno) -> Failure {
    let error = Error::io(action, context.shown(path), errno);
    let error = match errno {
        Errno::CANCELED => return Failure::Fatal(super::interrupted()),
        Errno::NOSPC | Errno::DQUOT => {
            error.hint("every file that has its name is whole; free some space and run again to go on")
        }
        Errno::STALE => error.hint("something else was put in its place meanwhile; run again"),
        Errno::EXIST => error.hint("it came there meanwhile and was left as it is; run again"),
        Errno::PERM if context.creator.is_root() => {
            error.hint("what is there, or its directory, may be immutable or append-only: see lsattr(1)")
        }
        _ => error,
    };
    if copy::is_fatal(errno) { Failure::Fatal(error) } else { Failure::Entry(error) }
}
