//! Everything but directories and regular files: symbolic links, devices, named pipes, sockets. None of them is opened.

use super::TEMPORARY;
use super::entries::{Pair, Seen};
use super::outcome::Attempt;
use crate::fs::metadata::{self, Attributes, Others};
use crate::fs::status::Status;
use crate::tree::writer::{Node, Temporary, Version, pin};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

impl Pair<'_> {
    /// Makes a link, device, named pipe or socket.
    pub(super) fn node(&self, seen: &Seen<'_>) -> Attempt<()> {
        let wrong = |action, errno| self.wrong(seen.name, action, errno);
        let above = self.above()?;
        let kind = seen.status.file_type();
        let to = match kind {
            FileType::Symlink => match rustix::fs::readlinkat(&self.directory.fd, seen.name, Vec::new()) {
                Ok(to) => to.into_bytes(),
                // It is gone since it was looked at.
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(self.unreadable(seen.name, "read the link", errno)),
            },
            _ => Vec::new(),
        };
        let node = match kind {
            FileType::Symlink => Node::Symlink(&to),
            _ => Node::Special(kind, seen.status.rdev),
        };
        let (temporary, ()) =
            Temporary::make(above, TEMPORARY, |name| node.make(above, name)).map_err(|errno| wrong("make", errno))?;
        // Made by us a moment ago, and no link that somebody put in its place.
        let creator = &self.context.creator;
        let is_ours = |status: &Status| status.file_type() == kind && status.nlink == 1 && creator.is_owner(status);
        let pinned = pin(above, temporary.name(), is_ours).map_err(|errno| wrong("make", errno))?;
        self.give_to_node(seen, &pinned, self.place().ground.inherits)?;
        temporary
            .put(self.target_name(seen.name), seen.replaces().as_ref())
            .map_err(|errno| wrong("put in place", errno))
    }

    /// Gives a link or special node that is there already, or a file that cannot be opened, the metadata of its source.
    pub(super) fn set_metadata_of_node(&self, seen: &Seen<'_>) -> Attempt<()> {
        let is_same = |status: &Status| seen.existing.is_some_and(|there| Version::of(&there).is(status));
        let pinned = pin(self.above()?, self.target_name(seen.name), is_same)
            .map_err(|errno| self.wrong(seen.name, "set the metadata of", errno))?;
        self.give_to_node(seen, &pinned, true)
    }

    fn give_to_node(&self, seen: &Seen<'_>, node: &OwnedFd, has_others: bool) -> Attempt<()> {
        let wrong = |errno| self.wrong(seen.name, "set the metadata of", errno);
        let (xattrs, unread) = metadata::readable_xattrs_at(&self.directory.fd, seen.name);
        self.report_unread(seen.name, unread);
        let removes = has_others && unread.is_none();
        if removes && metadata::remove_other_xattrs_of_node(node, &xattrs).map_err(wrong)? == Others::Unlisted {
            self.context.report_unlisted(&self.place().join(self.target_name(seen.name)));
        }
        let (attributes, is_foreign) = self.context.creator.within_rights(Attributes::of(&seen.status, &xattrs));
        let refused = self.context.creator.apply_node(node.as_fd(), &attributes).map_err(wrong)?;
        let shown = || self.context.shown(&self.place().join(self.target_name(seen.name)));
        self.context.not_kept.refused(&refused, is_foreign, shown);
        Ok(())
    }
}
