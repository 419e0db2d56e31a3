//! Links, devices, named pipes and sockets: creates them without opening them.

use super::set_metadata::pin;
use super::{Attempt, Inode, Slot, Target, Temporary};
use crate::fs::metadata::Creator;
use crate::fs::status::Status;
use rustix::fs::{FileType, Mode};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd as _, BorrowedFd};

/// An entry that is neither a regular file nor a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'a> {
    /// A symbolic link with this target.
    Symlink(&'a [u8]),
    /// A device, named pipe or socket, with the numbers of a device.
    Special(FileType, (u32, u32)),
}

impl<'d, T: Target> Slot<'d, '_, T> {
    /// Creates a link, device, named pipe or socket under a temporary name. `give` sets its metadata; the argument is
    /// whether the inode may have inherited other attributes. Returns the result of `give`, too.
    pub(crate) fn make_node<G>(
        &self,
        node: &Node<'_>,
        give: impl FnOnce(&Inode, bool) -> Attempt<G>,
    ) -> Attempt<(Temporary<BorrowedFd<'d>>, G)> {
        let made = node.make_temporary(self.above()?.as_fd(), self.run.temporary(), self.run.creator());
        let (temporary, inode) = made.map_err(|errno| self.failure("make", errno))?;
        give(&inode, self.dir().inherited.inherits).map(|given| (temporary, given))
    }
}

impl Node<'_> {
    /// Creates it, accessible only to its owner (mknodat(2), symlinkat(2)).
    fn make(&self, dir: BorrowedFd<'_>, name: &str) -> Result<()> {
        match *self {
            Node::Symlink(to) => rustix::fs::symlinkat(to, dir, name),
            Node::Special(kind, (major, minor)) => {
                let device = rustix::fs::makedev(major, minor);
                rustix::fs::mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, device)
            }
        }
    }

    /// Creates it under a temporary name, and opens it without its content.
    ///
    /// # Errors
    /// `STALE` if somebody replaced it with something else.
    fn make_temporary<'d>(
        &self,
        dir: BorrowedFd<'d>,
        prefix: &str,
        creator: &Creator,
    ) -> Result<(Temporary<BorrowedFd<'d>>, Inode)> {
        let (temporary, ()) = Temporary::make(dir, prefix, |name| self.make(dir, name))?;
        let pinned =
            pin(dir, temporary.name(), |status| self.is(status) && status.nlink == 1 && creator.is_owner(status))?;
        if let Node::Symlink(to) = *self
            && rustix::fs::readlinkat(&pinned, c"", Vec::new())?.as_bytes() != to
        {
            return Err(Errno::STALE);
        }
        Ok((temporary, Inode::Node(pinned)))
    }

    /// Whether an inode with this status has this type and, if it is a device, these numbers.
    fn is(&self, status: &Status) -> bool {
        match *self {
            Node::Symlink(_) => status.file_type() == FileType::Symlink,
            Node::Special(kind @ (FileType::BlockDevice | FileType::CharacterDevice), device) => {
                status.file_type() == kind && status.rdev == device
            }
            Node::Special(kind, _) => status.file_type() == kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_device_is_not_taken_for_the_one_that_was_made() {
        let null = Node::Special(FileType::CharacterDevice, (1, 3));
        let status = |mode, rdev| Status { mode, rdev, ..Status::default() };
        assert!(null.is(&status(0o020_600, (1, 3))));
        assert!(!null.is(&status(0o020_600, (1, 1))) && !null.is(&status(0o060_600, (1, 3))));
        assert!(Node::Special(FileType::Fifo, (0, 0)).is(&status(0o010_600, (0, 0))));
        assert!(!Node::Symlink(b"to").is(&status(0o010_600, (0, 0))));
    }
}
