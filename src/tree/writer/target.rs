//! The target of a run, and what a failed call there means: which failures end the run, and which hints they get.

use super::{Attempt, Devices, Entering, Failure, Rights, changed_meanwhile};
use crate::content::copy;
use crate::error::Error;
use crate::fs::metadata::Creator;
use crate::fs::status::Status;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The target of a run.
pub(crate) trait Target {
    /// The path of the target, for messages.
    fn path(&self) -> &Path;

    /// The path of an entry below the target, for messages.
    fn shown(&self, path: &[u8]) -> PathBuf;

    /// The filesystems that are written to.
    fn devices(&self) -> &Devices;

    /// How its entries are created.
    fn creator(&self) -> &Creator;

    /// The beginning of its temporary names.
    fn temporary(&self) -> &'static str;

    /// Takes permissions from an existing directory that it will not have in the end.
    fn narrow(&self, dir: &OwnedFd, entering: &Entering<'_>) -> rustix::io::Result<()> {
        match entering {
            Entering::AsItIs => Ok(()),
            Entering::ToGive(Rights { uid, gid, mode, .. }, acl) => {
                self.creator().narrow_directory(dir, &Status::of(dir)?, (*uid, *gid, *mode), acl)
            }
        }
    }

    /// The words for its failures.
    fn wording(&self) -> &'static Wording;

    /// Whether a call failed with this error because a filesystem that the run needs has failed as a whole.
    fn is_lost(&self, errno: Errno) -> bool {
        self.devices().are_lost(errno)
    }

    /// A call on an entry failed. The run ends if every other entry would fail in the same way.
    fn failure(&self, path: &[u8], action: &str, errno: Errno) -> Failure {
        self.failure_at(&self.shown(path), action, errno)
    }

    /// Like [`Target::failure`], with this path in messages.
    fn failure_at(&self, shown: &Path, action: &str, errno: Errno) -> Failure {
        let error = Error::io(action, shown, errno);
        let wording = self.wording();
        let error = match errno {
            Errno::CANCELED => return Failure::Fatal(Error::interrupted()),
            Errno::STALE => return Failure::Meanwhile(changed_meanwhile(action, shown)),
            Errno::EXIST => {
                let hint = "it was created by somebody else meanwhile and was not touched; run again";
                return Failure::Meanwhile(error.hint(hint));
            }
            Errno::BUSY => with_hint(error, wording.busy),
            Errno::NOSPC | Errno::DQUOT => with_hint(error, wording.full),
            Errno::PERM if rustix::process::geteuid().is_root() => error.hint(wording.immutable),
            _ => error,
        };
        if copy::is_fatal(errno) {
            Failure::Fatal(error)
        } else if self.is_lost(errno) {
            Failure::Fatal(with_hint(error, wording.lost))
        } else {
            Failure::Entry(error)
        }
    }

    /// The result of [`Target::failure`] as an attempt that failed.
    fn failed<T>(&self, path: &[u8], action: &str, errno: Errno) -> Attempt<T> {
        Err(self.failure(path, action, errno))
    }
}

/// The words in which a run reports failures.
#[derive(Debug)]
pub(crate) struct Wording {
    /// The action on entries: `copy to`, `restore`.
    pub(crate) action: &'static str,
    /// The hint for an entry that is a mount point.
    pub(crate) busy: Option<&'static str>,
    /// The hint for a full filesystem.
    pub(crate) full: Option<&'static str>,
    /// The hint for an entry that even root may not change.
    pub(crate) immutable: &'static str,
    /// The hint for a filesystem that failed as a whole.
    pub(crate) lost: Option<&'static str>,
}

fn with_hint(error: Error, hint: Option<&'static str>) -> Error {
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
