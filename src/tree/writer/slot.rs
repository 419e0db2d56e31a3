//! The place of one entry in the target: a name in a directory. Both commands write an entry by these steps:
//!
//! 1. [`Slot::look`] examines the existing entry, and `decide` decides.
//! 2. A regular file is made, filled, finished and put in its place as `new_file` describes. Every other entry but a
//!    directory is made by [`Slot::make_node`](super::Slot::make_node), and put in its place.
//! 3. An existing entry with the right content only gets its metadata: `set_metadata`.
//!
//! The run decides where content and metadata come from, and what it counts and reports. A call on the target that
//! fails is a [`Failure`] with the action that is named here, so both commands use the same words.

use super::{Attempt, Failure, Owner, Target, TargetDir, Temporary, Version, Wanted, is_another};
use crate::fs::status::Status;
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// A directory of the target, and its path.
pub(crate) trait Parent {
    /// The directory.
    fn dir(&self) -> &TargetDir;

    /// The path of an entry below the target.
    fn join(&self, name: &[u8]) -> Vec<u8>;
}

/// A name in a directory of the target, and the run that writes there.
pub(crate) struct Slot<'d, 'n, T> {
    pub(crate) run: &'d T,
    pub(crate) parent: &'d dyn Parent,
    pub(crate) name: &'n [u8],
    /// The names that the directory must have.
    pub(crate) wanted: Wanted<'d>,
}

impl<'d, T: Target> Slot<'d, '_, T> {
    /// The directory.
    pub(crate) fn dir(&self) -> &'d TargetDir {
        self.parent.dir()
    }

    /// The directory, open to create an entry in it.
    pub(super) fn above(&self) -> Attempt<&'d Arc<OwnedFd>> {
        self.dir().fd.as_ref().ok_or_else(|| self.failure("make an entry in", Errno::BADF))
    }

    /// The path below the target.
    pub(crate) fn path(&self) -> Vec<u8> {
        self.parent.join(self.name)
    }

    /// The path, for messages.
    pub(crate) fn shown(&self) -> PathBuf {
        self.run.shown(&self.path())
    }

    /// The existing entry. Fails if it is wanted under another name.
    pub(crate) fn look(&self) -> Attempt<Option<Status>> {
        let existing = self.dir().existing(self.name).map_err(|errno| self.failure("read the status of", errno))?;
        if existing.is_some() {
            self.refuse_another()?;
        }
        Ok(existing)
    }

    /// Fails if the entry that is found under the name is wanted under another name, so that it is not lost.
    pub(crate) fn refuse_another(&self) -> Attempt<()> {
        match self.dir().owner(self.name, self.wanted) {
            Ok(Owner::Itself) => Ok(()),
            Ok(Owner::Other(other)) => {
                let other = other.map(|other| self.run.shown(&self.parent.join(&other)));
                Err(Failure::Entry(is_another(self.run.wording().action, &self.shown(), other.as_deref())))
            }
            Err(errno) => self.run.failed(&self.path(), "compare the names in the directory of", errno),
        }
    }

    /// The failure of a call on the entry. If an entry unexpectedly exists, it may belong to another name.
    pub(crate) fn failure(&self, action: &str, errno: Errno) -> Failure {
        if errno == Errno::EXIST
            && let Err(failure) = self.refuse_another()
        {
            return failure;
        }
        self.run.failure(&self.path(), action, errno)
    }

    /// Gives a finished entry its name, in place of this version of another entry.
    pub(crate) fn put(&self, temporary: Temporary<BorrowedFd<'_>>, replaces: Option<&Version>) -> Attempt<()> {
        temporary.put(self.name, replaces).map_err(|errno| self.failure("put in place", errno))
    }
}
