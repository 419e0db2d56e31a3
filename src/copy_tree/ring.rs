//! Copies small files through io_uring. The files of a group are opened, created, read and written side by side, and
//! each file gets its metadata and its name when its content is complete. Files that the ring cannot copy are copied
//! afterwards, one by one.

use super::file::Kept;
use super::pair::{Pair, Seen};
use super::stats::Stats;
use super::{alone, count, file};
use crate::content::copy::small_files::{self, FileError, Files, Opened, Wanted};
use crate::content::copy::{Copied, CopyError};
use crate::error::{Error, Result};
use crate::fs::status::Status;
use crate::tree::writer::{Attempt, Failure, TempFile};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// A group in progress.
struct Group<'a, 'n, 's> {
    pair: Pair<'a>,
    seen: &'n [&'n Seen<'n>],
    files: Vec<State>,
    part: &'s mut Stats,
    /// Why the run ends.
    failure: Option<Error>,
}

/// The state of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not started.
    Untouched,
    /// The file changed, somebody else created the copy, or the ring cannot copy it: copy it the normal way.
    Again,
    /// Done, or reported as a problem.
    Over,
}

/// A copy that is being filled.
struct Filling<'a> {
    aside: TempFile<'a>,
    kept: Kept,
}

impl AsFd for Filling<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.aside.as_fd()
    }
}

/// Copies small files through a ring. `false`: there is no ring, and nothing was done.
pub(super) fn copy(pair: &Pair<'_>, group: &[&Seen<'_>], part: &mut Stats) -> Result<bool> {
    let dir = pair.directory.fd.as_fd();
    let wanted = group.iter().map(|seen| Wanted { dir, name: seen.name, size: seen.status.size });
    let wanted: Vec<_> = wanted.collect();
    let context = pair.context;
    let files = vec![State::Untouched; group.len()];
    let mut work = Group { pair: *pair, seen: group, files, part, failure: None };
    let strategy = &pair.place().dir.device.strategy;
    let result = small_files::files(&wanted, &mut work, strategy, &context.request, context.monitor);
    let Group { files, failure, part, .. } = work;
    if let Some(error) = failure {
        return Err(error);
    }
    if context.monitor.is_cancelled() {
        return Err(Error::interrupted());
    }
    let is_begun = result.is_ok() || files.iter().any(|file| *file != State::Untouched);
    if is_begun {
        for (seen, _) in group.iter().zip(files).filter(|(_, file)| *file != State::Over) {
            let copied = alone::file(pair, seen, None, part);
            copied.map(|_| ()).or_else(|failure| pair.skip(failure, part))?;
        }
    }
    Ok(is_begun)
}

impl<'a> Group<'a, '_, '_> {
    fn skip(&mut self, failure: Failure) {
        if let Err(error) = self.pair.skip(failure, self.part) {
            self.failure.get_or_insert(error);
        }
    }

    /// A source is open: reads its metadata, and creates the file for its content.
    fn make(&self, number: usize, source: Opened<'_>) -> Attempt<Filling<'a>> {
        let seen = self.seen[number];
        file::flush(self.pair.context, source.fd, source.status);
        let kept = file::kept(self.pair.context, source.fd, *source.status);
        let aside = self.pair.slot(seen.name).make_file(seen.replaces(), &kept.attributes())?;
        Ok(Filling { aside, kept })
    }

    /// The content of a file is complete.
    fn finish(&mut self, number: usize, source: Opened<'_>, copy: Filling<'_>, copied: &Copied) -> Attempt<State> {
        if !Status::of(source.fd).is_ok_and(|now| now.is_untouched_since(source.status)) {
            self.part.read_bytes += copied.read;
            return Ok(State::Again);
        }
        let seen = self.seen[number];
        let Filling { aside, kept } = copy;
        match file::put(&self.pair, seen, &kept, aside, (copied, true)) {
            Err(Failure::Meanwhile(_)) if seen.existing.is_none() => return Ok(State::Again),
            placed => placed?,
        };
        count::content(copied, self.part);
        let status = Status { size: copied.size(), ..kept.status };
        count::entry(self.pair.context, &status, false, self.part);
        Ok(State::Over)
    }
}

impl<'a> Files for Group<'a, '_, '_> {
    type Copy = Filling<'a>;

    fn opened(&mut self, number: usize, source: Opened<'_>) -> Option<Filling<'a>> {
        match self.make(number, source) {
            Ok(filling) => return Some(filling).filter(|_| self.failure.is_none()),
            Err(failure) => self.skip(failure),
        }
        self.files[number] = State::Over;
        None
    }

    fn copied(
        &mut self,
        number: usize,
        source: Opened<'_>,
        copy: Filling<'a>,
        copied: std::result::Result<Copied, CopyError>,
    ) {
        let name = self.seen[number].name;
        let state = match copied {
            Ok(copied) => self.finish(number, source, copy, &copied),
            Err(CopyError::Source(errno)) => Err(self.pair.unreadable(name, "read", errno)),
            Err(CopyError::Destination(errno)) => Err(self.pair.wrong(name, "write", errno)),
            Err(CopyError::Refused(_)) => Ok(State::Again),
        };
        self.files[number] = match state {
            Ok(state) => state,
            Err(failure) => {
                self.skip(failure);
                State::Over
            }
        };
    }

    fn failed(&mut self, number: usize, error: FileError) {
        let name = self.seen[number].name;
        self.files[number] = State::Over;
        match error {
            // It was deleted after its directory was listed.
            FileError::Open(Errno::NOENT) => self.pair.directory.note_missing(name),
            FileError::Open(Errno::LOOP) => self.skip(file::became_something_else(&self.pair, name)),
            FileError::Open(errno) => self.skip(self.pair.unreadable(name, "open", errno)),
            FileError::NotRegular(_) => self.skip(file::became_something_else(&self.pair, name)),
        }
    }
}
