//! The exit status of a finished command, also when nobody reads its output.

use crate::error::{Error, ErrorKind};
use crate::program::exit_status::ExitStatus;
use crate::program::output::Output;

/// Whether an engine stopped because nobody reads its results any more: see [`Output::stop_if_unread`]. That is not an
/// interruption by the user.
pub(super) fn is_unread(error: &Error, output: &Output) -> bool {
    error.kind() == ErrorKind::Interrupted && output.is_cancelled() && !output.is_interrupted()
}

/// The status of work that skipped `errors` parts.
pub(super) fn status(errors: u64) -> ExitStatus {
    if errors == 0 { ExitStatus::Done } else { ExitStatus::Incomplete }
}

/// The status of finished work, whether or not its report could be written. What the work found is worse than that.
pub(super) fn reported(output: &Output, status: ExitStatus) -> ExitStatus {
    match output.finish() {
        Ok(()) => status,
        Err(error) => {
            output.error(&error);
            if status == ExitStatus::Done { ExitStatus::Incomplete } else { status }
        }
    }
}
