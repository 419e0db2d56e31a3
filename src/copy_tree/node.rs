//! Creates everything except directories and regular files: symbolic links, devices, named pipes, sockets. None of them
//! is opened.

use super::metadata;
use super::options::TEMPORARY;
use super::pair::{Pair, Seen};
use crate::tree::writer::{Attempt, Node};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Creates a link, device, named pipe or socket.
pub(super) fn make(pair: &Pair<'_>, seen: &Seen<'_>) -> Attempt<()> {
    let wrong = |action, errno| pair.wrong(seen.name, action, errno);
    let above = pair.above()?;
    let kind = seen.status.file_type();
    let to = match kind {
        FileType::Symlink => match rustix::fs::readlinkat(&pair.directory.fd, seen.name, Vec::new()) {
            Ok(to) => to.into_bytes(),
            // It was deleted after it was examined.
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(pair.unreadable(seen.name, "read the link", errno)),
        },
        _ => Vec::new(),
    };
    let node = match kind {
        FileType::Symlink => Node::Symlink(&to),
        _ => Node::Special(kind, seen.status.rdev),
    };
    let made = node.make_temporary(above, TEMPORARY, &pair.context.creator);
    let (temporary, inode) = made.map_err(|errno| wrong("make", errno))?;
    metadata::give(pair, seen, &inode, &metadata::of_node(pair, seen), pair.place().dir.inherited.inherits)?;
    temporary.put(pair.target_name(seen.name), seen.replaces().as_ref()).map_err(|errno| wrong("put in place", errno))
}
