//! The copy ladder: how content comes from one file into another.
//!
//! [`content`] is the one way down: a clone where the filesystem allows it, else the engine that was chosen, else the next
//! one, from where that one stopped. Holes stay holes, and space that was reserved stays reserved. What a pair of
//! filesystems refused once is remembered and not asked again. `docs/copying.md` has the reasons.

mod batches;
mod choose;
mod content;
mod data;
mod engine;
pub mod engines;
mod held;
mod refusals;
mod reserved;
mod strategy;

pub use choose::{goes_by_ring, ring_pays};
pub use content::{Copied, CopyError, Request, content, content_hashing_copies};
pub use data::data;
pub use engine::Engine;
pub use held::Held;
pub use refusals::Refusal;
pub use strategy::{CloneError, Reason, Strategy};

use rustix::io::Errno;

/// Whether an error of a destination ends the run, because every further entry would meet it: the filesystem is full, over
/// quota, read-only or gone, or this process may open no more files. Any other error is one entry's: a name or a link
/// target that the filesystem does not take, too many links, a file larger than it allows.
pub fn is_fatal(errno: Errno) -> bool {
    let is_full_or_gone =
        matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::SHUTDOWN | Errno::NODEV | Errno::NOTCONN);
    is_full_or_gone || matches!(errno, Errno::MFILE | Errno::NFILE)
}
