//! Examines one entry and the entry with its name in the destination, and decides what to do.

use super::context::LARGE;
use super::decide;
use super::pair::{Pair, Seen};
use crate::error::Error;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::tree::writer::{Attempt, Failure};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::AsFd as _;

/// Examines an entry. `None`: it was deleted after its directory was listed. Without `may_exist`, the destination
/// cannot have an entry with its name.
pub(super) fn look<'n>(pair: &Pair<'_>, name: &'n [u8], may_exist: bool) -> Attempt<Option<Seen<'n>>> {
    let status = match Status::at(&pair.directory.fd, name) {
        Ok(status) => status,
        Err(Errno::NOENT) => {
            pair.directory.note_missing(name);
            return Ok(None);
        }
        Err(errno) => return Err(pair.unreadable(name, "read the status of", errno)),
    };
    let existing = match may_exist {
        true => pair.slot(name).look()?,
        false => None,
    };
    compare(pair, name, status, existing)
}

/// Examines an entry of a new directory that was a regular file when its directory was listed. Opens it instead of
/// resolving its name twice: the file is returned open if it is worth keeping.
pub(super) fn open<'n>(pair: &Pair<'_>, name: &'n [u8]) -> Attempt<Option<Seen<'n>>> {
    let opened = openat::open_file(pair.directory.fd.as_fd(), name).and_then(|fd| Ok((Status::of(&fd)?, fd)));
    match opened {
        Ok((status, fd)) if status.file_type() == FileType::RegularFile => {
            let seen = compare(pair, name, status, None)?;
            let is_kept = status.nlink == 1 && status.size < LARGE;
            Ok(seen.map(|seen| Seen { opened: Some(fd).filter(|_| is_kept), ..seen }))
        }
        // It is something else now, or whoever copies it reports why it cannot be opened.
        _ => look(pair, name, false),
    }
}

fn compare<'n>(pair: &Pair<'_>, name: &'n [u8], status: Status, existing: Option<Status>) -> Attempt<Option<Seen<'n>>> {
    match decide::decide(pair, (name, &status), (pair.target_name(name), existing.as_ref())) {
        Ok(decision) => Ok(Some(Seen { name, status, existing, decision, opened: None })),
        Err(Errno::NOENT) => {
            pair.directory.note_missing(name);
            Ok(None)
        }
        Err(Errno::CANCELED) => Err(Failure::Fatal(Error::interrupted())),
        Err(errno) => Err(pair.wrong(name, "compare its source with", errno)),
    }
}
