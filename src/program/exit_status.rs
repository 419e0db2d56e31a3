//! The exit statuses of the command, and the status for each kind of error.

use crate::error::{Error, ErrorKind};

/// The exit statuses of the command. They are documented and never change, because scripts use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// Everything was done.
    Done = 0,
    /// Failed: do not rely on any result of this run.
    Failed = 1,
    /// The command line is invalid.
    Usage = 2,
    /// Done, but some entries were skipped and reported.
    Incomplete = 3,
    /// The data in the repository, or a copy that was read back, is damaged.
    Damage = 4,
    /// Another run holds the repository.
    Locked = 11,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl ExitStatus {
    /// The status of a command that fails with this error.
    pub(crate) fn of(error: &Error) -> ExitStatus {
        match error.kind() {
            ErrorKind::Failed => ExitStatus::Failed,
            ErrorKind::Usage => ExitStatus::Usage,
            ErrorKind::Damage => ExitStatus::Damage,
            ErrorKind::Locked => ExitStatus::Locked,
            ErrorKind::Interrupted => ExitStatus::Interrupted,
        }
    }

    /// The worse of two statuses. Work in several parts has the worst status of its parts.
    pub(crate) fn worse(self, other: ExitStatus) -> ExitStatus {
        if other.badness() > self.badness() { other } else { self }
    }

    fn badness(self) -> u8 {
        match self {
            ExitStatus::Done => 0,
            ExitStatus::Incomplete => 1,
            ExitStatus::Locked => 2,
            ExitStatus::Damage => 3,
            ExitStatus::Usage => 4,
            ExitStatus::Failed => 5,
            ExitStatus::Interrupted => 6,
        }
    }
}
