//! Looks at one entry and what has its name in the destination, and decides what happens to it.

use super::decide;
use super::pair::{Pair, Seen};
use crate::error::Error;
use crate::fs::status::Status;
use crate::tree::writer::{Attempt, Failure};
use rustix::io::Errno;

/// Looks at an entry. `None`: it is gone since its directory was listed. Without `may_exist` nothing can have its name
/// in the destination.
pub(super) fn look<'n>(pair: &Pair<'_>, name: &'n [u8], may_exist: bool) -> Attempt<Option<Seen<'n>>> {
    let status = match Status::at(&pair.directory.fd, name) {
        Ok(status) => status,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(pair.unreadable(name, "read the status of", errno)),
    };
    let place = pair.place();
    let target_name = place.name(name);
    let existing = match may_exist {
        true => place.dir.existing(target_name).map_err(|errno| pair.wrong(name, "look at", errno))?,
        false => None,
    };
    if existing.is_some() {
        pair.refuse_another(target_name)?;
    }
    match decide::decide(pair, (name, &status), (target_name, existing.as_ref())) {
        Ok(decision) => Ok(Some(Seen { name, status, existing, decision })),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::CANCELED) => Err(Failure::Fatal(Error::interrupted())),
        Err(errno) => Err(pair.wrong(name, "compare its source with", errno)),
    }
}
