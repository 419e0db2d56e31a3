//! Questions on the user and the user's rights on this system.

use super::answer::{Answer, Reply};
use super::place::Place;
use crate::sys::uring;
use rustix::io::Errno;

pub(super) fn user(_: &Place) -> Reply {
    let uid = rustix::process::geteuid();
    Ok(Some(match uid.is_root() {
        true => Answer::text("root", "may read, restore and dedupe the files of everybody"),
        false => Answer::text(
            &format!("uid {}", uid.as_raw()),
            "may read what its permissions allow and dedupe its own files; cannot restore other owners",
        ),
    }))
}

pub(super) fn io_uring(_: &Place) -> Reply {
    let means_no = match uring::try_ring() {
        Ok(()) => "",
        Err(Errno::PERM | Errno::ACCESS) => {
            "forbidden here, by sysctl kernel.io_uring_disabled or a container's filter"
        }
        Err(Errno::NOSYS) => "this kernel has none",
        Err(errno) => return Err(errno),
    };
    Ok(Some(Answer::flag(means_no.is_empty(), "a program can have many requests under way at once", means_no)))
}
