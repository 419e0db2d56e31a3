//! Small files through io_uring: a group is opened, created, read and written side by side, and each file gets its metadata
//! and its name when its content is there. What does not fit takes the plain way afterwards, alone.

use super::TEMPORARY;
use super::entries::{Pair, Seen};
use super::file::{Kept, count};
use super::outcome::{Attempt, Failure};
use super::{Stats, interrupted};
use crate::copy::engines::uring::{self, FileError, Files, Made, Wanted};
use crate::copy::{Copied, CopyError};
use crate::error::{Error, Result};
use crate::metadata;
use crate::staging::{Temporary, temporary_name};
use crate::status::Status;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// A group under way.
struct Group<'a, 'n, 's> {
    pair: Pair<'a>,
    above: BorrowedFd<'a>,
    seen: &'n [&'n Seen<'n>],
    names: &'n [String],
    files: Vec<State<'a>>,
    part: &'s mut Stats,
    /// Why the run ends.
    failure: Option<Error>,
}

/// What has become of a file.
enum State<'a> {
    /// Nothing was told of it.
    Untold,
    /// It was made, and is being filled.
    Made(Box<(Temporary<'a>, Kept)>),
    /// It changed, or there was no room for it here: the plain way is to try.
    Again,
    /// It is done, or was told as a problem.
    Over,
}

impl Pair<'_> {
    /// Brings small files over by a ring. `false`: there is none, and nothing was done.
    pub(super) fn files_by_ring(&self, group: &[&Seen<'_>], part: &mut Stats) -> Result<bool> {
        let above = match self.above() {
            Ok(above) => above,
            Err(failure) => return self.tell(failure, part).map(|()| true),
        };
        let names: Vec<_> = group.iter().map(|_| temporary_name(TEMPORARY)).collect();
        let wanted = group.iter().zip(&names).map(|(seen, name)| Wanted {
            source_dir: self.directory.fd.as_fd(),
            source: seen.name,
            size: seen.status.size,
            destination_dir: above,
            destination: name.as_bytes(),
        });
        let wanted: Vec<_> = wanted.collect();
        let context = self.context;
        let files = group.iter().map(|_| State::Untold).collect();
        let mut work = Group { pair: *self, above, seen: group, names: &names, files, part, failure: None };
        let ladder = &self.place().device.ladder;
        let result = uring::files(&wanted, &mut work, ladder, &context.request, context.monitor);
        let Group { files, failure, part, .. } = work;
        if let Some(error) = failure {
            return Err(error);
        }
        if context.monitor.is_cancelled() {
            return Err(interrupted());
        }
        let is_done = result.is_ok() || files.iter().any(|file| !matches!(file, State::Untold));
        for ((seen, name), file) in group.iter().zip(&names).zip(files) {
            match file {
                State::Over => continue,
                // Should the ring have failed midway, it may have been made.
                State::Untold => drop(Temporary::adopt(above, name.clone())),
                State::Made(_) | State::Again => {}
            }
            if is_done {
                self.file(seen, None, part).map(|_| ()).or_else(|failure| self.tell(failure, part))?;
            }
        }
        Ok(is_done)
    }
}

impl<'a> Group<'a, '_, '_> {
    fn tell(&mut self, failure: Failure) {
        if let Err(error) = self.pair.tell(failure, self.part) {
            self.failure.get_or_insert(error);
        }
    }

    /// A file was made: what its source has besides its content is read, and what must come before that is given.
    fn prepare(&self, number: usize, made: &Made<'_>) -> Attempt<State<'a>> {
        let name = self.seen[number].name;
        let temporary = Temporary::adopt(self.above, self.names[number].clone());
        let kept = Kept {
            status: *made.status,
            xattrs: metadata::xattrs(made.source)
                .map_err(|errno| self.pair.unreadable(name, "read the extended attributes of", errno))?,
            fileattr: self.pair.context.fileattrs.of(made.source, made.status.dev),
        };
        self.pair.prepare(name, made.destination, &kept)?;
        Ok(State::Made(Box::new((temporary, kept))))
    }

    /// A file's content is there.
    fn finish(&mut self, number: usize, made: &Made<'_>, copied: &Copied) -> Attempt<State<'a>> {
        let State::Made(made_here) = std::mem::replace(&mut self.files[number], State::Over) else {
            return Ok(State::Over);
        };
        let (temporary, kept) = *made_here;
        if !Status::of(made.source).is_ok_and(|now| now.is_untouched_since(made.status)) {
            self.part.read_bytes += copied.read;
            return Ok(State::Again);
        }
        let seen = self.seen[number];
        self.pair.put(seen, &kept, temporary, made.destination)?;
        count(copied, self.part);
        let status = Status { size: copied.size(), ..kept.status };
        self.pair.done(&Seen { status, ..*seen }, false, self.part);
        Ok(State::Over)
    }
}

impl Files for Group<'_, '_, '_> {
    fn opened(&mut self, number: usize, made: &Made<'_>) -> bool {
        match self.prepare(number, made) {
            Ok(state) if self.failure.is_none() => {
                self.files[number] = state;
                true
            }
            Ok(_) => {
                self.files[number] = State::Over;
                false
            }
            Err(failure) => {
                self.files[number] = State::Over;
                self.tell(failure);
                false
            }
        }
    }

    fn copied(&mut self, number: usize, made: &Made<'_>, copied: std::result::Result<Copied, CopyError>) {
        let name = self.seen[number].name;
        let state = match copied {
            Ok(copied) => self.finish(number, made, &copied),
            Err(CopyError::Source(errno)) => Err(self.pair.unreadable(name, "read", errno)),
            Err(CopyError::Destination(errno)) => Err(self.pair.wrong(name, "write", errno)),
            Err(CopyError::Refused(_)) => Ok(State::Again),
        };
        self.files[number] = State::Over;
        match state {
            Ok(state) => self.files[number] = state,
            Err(failure) => self.tell(failure),
        }
    }

    fn failed(&mut self, number: usize, error: FileError) {
        let name = self.seen[number].name;
        self.files[number] = State::Over;
        match error {
            // It is gone since its directory was listed.
            FileError::Open(Errno::NOENT) => {}
            FileError::Open(errno) => self.tell(self.pair.unreadable(name, "open", errno)),
            FileError::NotRegular(_) => self.tell(self.pair.became_something_else(name)),
            // A dead process with our number left one.
            FileError::Create(Errno::EXIST) => self.files[number] = State::Again,
            FileError::Create(errno) => self.tell(self.pair.wrong(name, "make", errno)),
        }
    }
}
