//! The exit status of a finished command, also when its output cannot be written or nobody reads it.

use crate::error::{Error, ErrorKind, Result, Stopped};
use crate::program::exit_status::ExitStatus;
use crate::program::output::Output;

/// The state of the disk after work that changes nothing, in words.
pub(super) const UNCHANGED: &str = "nothing was changed";

/// The state of the disk after an interruption, in words. `interrupted`: that of a run that changes something.
pub(super) fn state(interrupted: &'static str, is_dry_run: bool) -> &'static str {
    if is_dry_run { UNCHANGED } else { interrupted }
}

/// Whether an engine stopped because nobody reads its results any more: see [`Output::stop_if_unread`]. That is not an
/// interruption by the user.
pub(super) fn is_unread(error: &Error, output: &Output) -> bool {
    error.kind() == ErrorKind::Interrupted && output.is_cancelled() && !output.is_interrupted()
}

/// What work has done, for its summary. If it ended early, shows why, counts that as one of its `errors`, and returns
/// the error too. `state`: the state of the disk after an interruption, in words.
///
/// # Errors
/// An error that was not shown: nothing was done.
pub(super) fn counted<S>(
    result: Result<S, Stopped<S>>,
    errors: fn(&mut S) -> &mut u64,
    state: &str,
    output: &Output,
) -> Result<(S, Option<Error>)> {
    match result {
        Ok(stats) => Ok((stats, None)),
        Err(Stopped { error, stats: Some(mut stats) }) => {
            let error = if error.kind() == ErrorKind::Interrupted { error.or_hint(state) } else { error };
            output.error(&error);
            *errors(&mut stats) += 1;
            Ok((*stats, Some(error)))
        }
        Err(stopped) => Err(stopped.error),
    }
}

/// The status of work that skipped `errors` parts.
pub(super) fn status(errors: u64) -> ExitStatus {
    if errors == 0 { ExitStatus::Done } else { ExitStatus::Incomplete }
}

/// The status of work that skipped `errors` parts, or ended early with an error.
pub(super) fn status_of(error: Option<&Error>, errors: u64) -> ExitStatus {
    error.map_or_else(|| status(errors), ExitStatus::of)
}

/// The end of a command. It decides what it means if the output could not be written. For each dry run, `commands::run`
/// applies [`Ended::planned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The command changed or checked something, and that is done. Only the report may be missing.
    Worked(ExitStatus),
    /// The output is the only result.
    Listed(ExitStatus),
}

impl Ended {
    /// The end of a dry run: its plan is its only result.
    pub(super) fn planned(self) -> Ended {
        let (Ended::Worked(status) | Ended::Listed(status)) = self;
        Ended::Listed(status)
    }

    /// The status to exit with. What the work found is worse than a missing report.
    pub(super) fn status(self, output: &Output) -> ExitStatus {
        let Err(error) = output.finish() else {
            let (Ended::Worked(status) | Ended::Listed(status)) = self;
            return status;
        };
        output.error(&error);
        match self {
            Ended::Worked(status) => status.worse(ExitStatus::Incomplete),
            Ended::Listed(status) => status.worse(ExitStatus::of(&error)),
        }
    }
}
