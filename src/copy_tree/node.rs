//! Creates everything except directories and regular files: symbolic links, devices, named pipes, sockets. None of them
//! is opened.

use super::metadata;
use super::pair::{Pair, Seen};
use crate::tree::writer::{Attempt, Inode, Node};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Creates a link, device, named pipe or socket.
pub(super) fn make(pair: &Pair<'_>, seen: &Seen<'_>) -> Attempt<()> {
    let kind = seen.status.file_type();
    let to = match kind {
        FileType::Symlink => match rustix::fs::readlinkat(&pair.directory.fd, seen.name, Vec::new()) {
            Ok(to) => to.into_bytes(),
            // It was deleted after it was examined.
            Err(Errno::NOENT) => {
                pair.directory.note_missing(seen.name);
                return Ok(());
            }
            Err(errno) => return Err(pair.unreadable(seen.name, "read the link", errno)),
        },
        _ => Vec::new(),
    };
    let node = match kind {
        FileType::Symlink => Node::Symlink(&to),
        _ => Node::Special(kind, seen.status.rdev),
    };
    let slot = pair.slot(seen.name);
    let give = |inode: &Inode, has_others| {
        metadata::give(pair, seen, inode, &metadata::of_node(pair, seen), (None, has_others))
    };
    let (temporary, ()) = slot.make_node(&node, give)?;
    slot.put(temporary, seen.replaces().as_ref())
}
