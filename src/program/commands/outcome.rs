//! The exit status of a finished command, also when nobody reads its output.

use crate::error::{Error, ErrorKind, Result, Stopped};
use crate::program::exit_status::ExitStatus;
use crate::program::output::Output;

/// Whether an engine stopped because nobody reads its output any more. That is not an interruption by the user.
pub(super) fn is_unread(error: &Error, output: &Output) -> bool {
    error.kind() == ErrorKind::Interrupted && !output.is_interrupted()
}

/// What work has done, for its summary. If it ended early, shows why, and returns the error too. `state`: the state of
/// the disk after an interruption, in words.
///
/// # Errors
/// An error that was not shown: nothing was done, or nobody reads the output any more.
pub(super) fn counted<S>(
    result: std::result::Result<S, Stopped<S>>,
    state: &str,
    output: &Output,
) -> Result<(S, Option<Error>)> {
    match result {
        Ok(stats) => Ok((stats, None)),
        Err(Stopped { error, stats: Some(stats) }) if !is_unread(&error, output) => {
            let error = if error.kind() == ErrorKind::Interrupted { error.or_hint(state) } else { error };
            output.error(&error);
            Ok((*stats, Some(error)))
        }
        Err(stopped) => Err(stopped.error),
    }
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
