//! The exit status of a finished command, also when its output cannot be written or nobody reads it.

use crate::error::{Error, ErrorKind, Result, Stopped};
use crate::program::exit_status::ExitStatus;
use crate::program::output::Output;

/// Whether an engine stopped because nobody reads its results any more: see [`Output::stop_if_unread`]. That is not an
/// interruption by the user.
pub(super) fn is_unread(error: &Error, output: &Output) -> bool {
    error.kind() == ErrorKind::Interrupted && output.is_cancelled() && !output.is_interrupted()
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

/// The end of a command. It decides what it means if the output could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The command changed or checked something, and that is done. Only the report may be missing.
    Worked(ExitStatus),
    /// The output is the only result.
    Listed(ExitStatus),
}

impl Ended {
    /// The status to exit with. What the work found is worse than a missing report.
    pub(super) fn status(self, output: &Output) -> ExitStatus {
        let Err(error) = output.finish() else {
            let (Ended::Worked(status) | Ended::Listed(status)) = self;
            return status;
        };
        output.error(&error);
        match self {
            Ended::Worked(ExitStatus::Done) => ExitStatus::Incomplete,
            Ended::Worked(status) => status,
            Ended::Listed(_) => ExitStatus::of(&error),
        }
    }
}
