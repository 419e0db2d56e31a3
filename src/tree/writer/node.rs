//! Links, devices, named pipes and sockets: creates them without opening them.

use super::give::pin;
use super::{Attempt, Inode, Slot, Target, Temporary};
use crate::fs::metadata::Creator;
use crate::fs::status::Status;
use rustix::fs::{FileType, Mode};
use rustix::io::Result;
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
        let is_ours =
            |status: &Status| status.file_type() == self.file_type() && status.nlink == 1 && creator.is_owner(status);
        let pinned = pin(dir, temporary.name(), is_ours)?;
        Ok((temporary, Inode::Node(pinned)))
    }

    fn file_type(&self) -> FileType {
        match *self {
            Node::Symlink(_) => FileType::Symlink,
            Node::Special(kind, _) => kind,
        }
    }
}
