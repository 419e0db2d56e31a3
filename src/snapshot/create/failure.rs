//! What a failure means: the run ends, or one entry is skipped or added in another way.

use crate::content::copy;
use crate::error::{Error, Result};
use crate::tree::walk::absolute;
use rustix::io::Errno;

/// Why a step did not add its entry.
pub(super) enum Failure<E> {
    /// The run must end.
    Run(Error),
    /// Only this entry failed, for this reason.
    Entry(E),
}

impl<E> From<Error> for Failure<E> {
    fn from(error: Error) -> Self {
        Failure::Run(error)
    }
}

/// The result of a step that may fail for one entry only.
pub(super) type Attempt<T, E> = std::result::Result<T, Failure<E>>;

/// Returns `None` for a failure that concerns only its entry, and drops the reason.
pub(super) fn or_none<T, E>(attempt: Attempt<T, E>) -> Result<Option<T>> {
    match attempt {
        Ok(done) => Ok(Some(done)),
        Err(Failure::Entry(_)) => Ok(None),
        Err(Failure::Run(error)) => Err(error),
    }
}

/// Whether an error of a call that makes something in the snapshot ends the run, because every further entry would meet
/// it. All other errors concern one entry: somebody may have made an entry that this filesystem cannot store.
pub(super) fn is_fatal(errno: Errno) -> bool {
    copy::is_fatal(errno) || matches!(errno, Errno::IO | Errno::UCLEAN | Errno::NOMEM)
}

/// The hint for a name that exists in a staging tree, where nobody else makes names.
pub(super) const NAME_TAKEN: &str =
    "the repository already has another entry there: its name differs in upper and lower case only";

/// Whether the error means that the filesystem cannot have such a name at all.
pub(super) fn is_no_name(errno: Errno) -> bool {
    matches!(errno, Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ)
}

/// The error of a call that makes something in the snapshot.
pub(super) fn cannot_make(path: &[u8], errno: Errno) -> Error {
    let error = Error::io("write to the snapshot", absolute(path), errno);
    match errno {
        Errno::NOSPC | Errno::DQUOT => {
            error.hint("no snapshot was made; earlier snapshots are complete; free some space and run again")
        }
        _ => error,
    }
}
