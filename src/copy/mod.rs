//! The copy ladder: how content comes from one file into another.
//!
//! A clone where the filesystem allows it, else a copy that keeps holes. What a pair of filesystems refused once is
//! remembered and not asked again.

mod buffered;
mod held;
mod ladder;
pub mod segments;

pub use buffered::{Copied, CopyError, copy};
pub use held::Held;
pub use ladder::{CloneError, Ladder, Reason};

use rustix::io::Errno;

/// Whether an error of a destination is one that every further file would meet: full, over quota, read-only.
pub fn is_fatal(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::ROFS)
}
