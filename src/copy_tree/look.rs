//! Examines one entry and the entry with its name in the destination, and decides what to do.

use super::decide;
use super::pair::{Pair, Seen};
use crate::error::Error;
use crate::fs::status::Status;
use crate::tree::writer::{Attempt, Failure};
use rustix::io::Errno;

/// Examines an entry. `None`: it was deleted after its directory was listed. Without `may_exist`, the destination
/// cannot have an entry with its name.
pub(super) fn look<'n>(pair: &Pair<'_>, name: &'n [u8], may_exist: bool) -> Attempt<Option<Seen<'n>>> {
    let status = match Status::at(&pair.directory.fd, name) {
        Ok(status) => status,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(pair.unreadable(name, "read the status of", errno)),
    };
    let existing = match may_exist {
        true => pair.slot(name).look()?,
        false => None,
    };
    match decide::decide(pair, (name, &status), (pair.target_name(name), existing.as_ref())) {
        Ok(decision) => Ok(Some(Seen { name, status, existing, decision })),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::CANCELED) => Err(Failure::Fatal(Error::interrupted())),
        Err(errno) => Err(pair.wrong(name, "compare its source with", errno)),
    }
}
