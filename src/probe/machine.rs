//! Questions on the user and the user's rights on this system.

use super::answer::{Answer, IoUring, Reply};
use super::place::Place;
use crate::sys::uring;
use rustix::io::Errno;

pub(super) fn user(_: &Place) -> Reply {
    Ok(Some(Answer::User { uid: rustix::process::geteuid().as_raw() }))
}

pub(super) fn io_uring(_: &Place) -> Reply {
    Ok(Some(Answer::IoUring(match uring::try_ring() {
        Ok(()) => IoUring::Available,
        Err(Errno::PERM | Errno::ACCESS) => IoUring::Forbidden,
        Err(Errno::NOSYS) => IoUring::Missing,
        Err(errno) => return Err(errno),
    })))
}
