//! The exit status of a command that ran, and of one whose output nobody reads.

use crate::output::Output;
use pleach::error::{Error, ErrorKind, ExitStatus};

/// Whether an engine stopped because nobody reads its output any more: that is no interruption by the user.
pub(super) fn is_unread(error: &Error, output: &Output) -> bool {
    error.kind() == ErrorKind::Interrupted && !output.is_interrupted()
}

/// The status of work of which `errors` parts were skipped.
pub(super) fn status(errors: u64) -> ExitStatus {
    if errors == 0 { ExitStatus::Done } else { ExitStatus::Incomplete }
}

/// The status of work that is done, whether its report could be written or not.
pub(super) fn reported(output: &Output, status: ExitStatus) -> ExitStatus {
    match output.finish() {
        Ok(()) => status,
        Err(error) => {
            output.error(&error);
            ExitStatus::Incomplete
        }
    }
}
