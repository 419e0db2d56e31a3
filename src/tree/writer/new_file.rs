//! A new regular file of the target, in the order that both commands keep:
//!
//! 1. [`Slot::make_file`]: an empty file that only its owner may reach, with everything that must be set before its
//!    first byte. See `temp_file` for its name until it gets its own.
//! 2. The run fills it (`content::copy`) and checks its content.
//! 3. [`Slot::finish`]: its metadata. If its data needs a sync, the times follow after that sync. Until then it has
//!    another modification time.
//! 4. [`Slot::put_file`]: its name, and last its seal. If its data needs a sync, the seal follows after that sync, and
//!    so does the name if it replaces another file.
//!
//! `unsynced` does what follows after the sync, and `after_sync` says why.

use super::{Attempt, Openness, Slot, Target, TempFile, Unsynced, Version, set_provisional_time};
use crate::fs::metadata::{Attributes, FileAttr, Refused, RefusedAttr, set_times};
use crate::fs::status::Time;
use std::os::fd::{AsFd, BorrowedFd};

/// A file with its content and metadata, and without its name.
#[derive(Debug)]
pub(crate) struct Finished<'d> {
    file: TempFile<'d>,
    /// The times that it gets after a sync.
    times: Option<(Time, Time)>,
}

/// The result of giving a file its name.
#[derive(Debug)]
pub(crate) enum Put {
    /// It is in its place. The target refused these parts of its seal.
    Settled(RefusedAttr),
    /// The rest follows after a sync.
    Unsynced(Unsynced),
}

impl<'d, T: Target> Slot<'d, '_, T> {
    /// Creates an empty file for this entry, which may replace this version of another file.
    pub(crate) fn make_file(&self, replaces: Option<Version>, attributes: &Attributes<'_>) -> Attempt<TempFile<'d>> {
        let (dir, prefix, permissions) = (self.above()?.as_fd(), self.run.temporary(), attributes.mode & 0o777);
        let made = match (replaces, self.dir().openness()) {
            (None, Openness::Staged) => TempFile::make_in_staged(dir, self.name, permissions),
            (None, Openness::Private) => TempFile::make_in_private(dir, prefix, permissions),
            (replaces, _) => TempFile::make(dir, prefix, replaces),
        };
        let file = made.map_err(|errno| self.failure("make", errno))?;
        let prepared = self.dir().inherited.prepare(self.run.creator(), &file, attributes);
        prepared.map_err(|errno| self.failure("set the metadata of", errno))?;
        Ok(file)
    }

    /// Sets the metadata of a file with complete content. `must_sync`: its data may be in memory only. `is_plain`: its
    /// directory is known to give new files the owner and group of this process and nothing else, so calls that would
    /// change nothing are skipped.
    ///
    /// A directory with the set-group-id bit, or a mount with `grpid`, gives its own group to new files.
    pub(crate) fn finish(
        &self,
        file: TempFile<'d>,
        attributes: &Attributes<'_>,
        must_sync: bool,
        is_plain: bool,
    ) -> Attempt<(Finished<'d>, Refused)> {
        let (creator, attributes, created) = (self.run.creator(), attributes.unsealed(), file.created());
        let given = match (is_plain, must_sync) {
            (true, false) => creator.finish(&file, created, &attributes),
            (true, true) => creator.finish_but_times(&file, created, &attributes),
            (false, false) => creator.apply(&file, &attributes),
            (false, true) => creator.apply_but_times(&file, &attributes),
        };
        let refused = given.map_err(|errno| self.failure("set the metadata of", errno))?;
        let times = must_sync.then_some((attributes.atime, attributes.mtime));
        if must_sync {
            set_provisional_time(&file, attributes.mtime).map_err(|errno| self.failure("set the times of", errno))?;
        }
        Ok((Finished { file, times }, refused))
    }

    /// Writes the data of a file to the disk now, and sets its times, so that nothing has to follow.
    pub(crate) fn sync(&self, finished: Finished<'d>) -> Attempt<Finished<'d>> {
        if let Some((atime, mtime)) = finished.times {
            rustix::fs::fsync(&finished.file).map_err(|errno| self.failure("write", errno))?;
            set_times(&finished.file, atime, mtime).map_err(|errno| self.failure("set the times of", errno))?;
        }
        Ok(Finished { times: None, ..finished })
    }

    /// Gives a file its name and its seal. An entry that was created there meanwhile is not replaced.
    pub(crate) fn put_file(&self, finished: Finished<'_>, seal: Option<FileAttr>) -> Attempt<Put> {
        let Finished { file, times } = finished;
        let put = match times {
            Some(times) => self.dir().put_before_sync(file, self.name, times, seal).map(Put::Unsynced),
            None => file.put(self.name).map(|file| {
                let refused = seal.map_or(RefusedAttr::default(), |seal| seal.seal(file));
                Put::Settled(refused)
            }),
        };
        put.map_err(|errno| self.failure("put in place", errno))
    }
}

impl Finished<'_> {
    /// Whether its times follow after a sync.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.times.is_some()
    }
}

impl AsFd for Finished<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
