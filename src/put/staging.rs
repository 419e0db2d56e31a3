//! The temporary file: created beside the destination under a temporary name, then renamed over it, or removed after a
//! failure.

use super::destination::Destination;
use super::keep;
use crate::error::{Error, Result};
use crate::fs::shutdown;
use crate::monitor::{Event, Monitor};
use crate::tree::writer::{self, Temporary, Version};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// The beginning of temporary names.
const TEMPORARY: &str = ".pleach-put.";

/// The file that is being written.
pub(super) struct Staging {
    temporary: Temporary<OwnedFd>,
    file: OwnedFd,
}

impl Staging {
    /// Removes leftovers of killed runs from the destination's directory, and creates a new file there.
    pub(super) fn begin(destination: &Destination, monitor: &dyn Monitor) -> Result<Staging> {
        let failed = |errno| Error::io("make a file beside", &destination.shown, errno);
        let open = || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(&destination.dir, c".", flags, Mode::empty())
        };
        // A failure to remove them does not stop this run.
        if let Ok(cleared @ 1..) = open().and_then(|dir| writer::clear(dir.as_fd(), TEMPORARY)) {
            monitor.event(Event::LeftoversRemoved { count: cleared, path: &destination.shown });
        }
        let dir = open().map_err(failed)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = keep::first_mode(destination);
        let made = Temporary::make(dir, TEMPORARY, |name| rustix::fs::openat(&destination.dir, name, flags, mode));
        let (temporary, file) = made.map_err(failed)?;
        Ok(Staging { temporary, file })
    }

    /// The file, open for reading and writing.
    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Renames the file over the destination, unless the destination was changed meanwhile, and syncs the directory.
    pub(super) fn put(self, destination: &Destination) -> Result<()> {
        let version = destination.present.as_ref().map(|present| Version::of(&present.status));
        self.temporary.put(&destination.name, version.as_ref()).map_err(|errno| match errno {
            Errno::STALE => writer::changed_meanwhile("replace", &destination.shown),
            Errno::EXIST => Error::io("replace", &destination.shown, errno)
                .hint("somebody else created it meanwhile; it was not touched"),
            Errno::BUSY => Error::io("replace", &destination.shown, errno)
                .hint("something is mounted there; the file is unchanged"),
            _ => Error::io("replace", &destination.shown, errno).hint("the file is unchanged"),
        })?;
        shutdown::sync_directory(&destination.dir).map_err(|errno| {
            // A failure, and not an incomplete run: who replaces a file relies on its being on the disk.
            let error = Error::io("sync the directory of", &destination.shown, errno);
            error.hint("the file has its new content, but a power cut may bring the old one back; run it again")
        })
    }
}

/// Sets the size of a file, if it differs. XFS would rewrite the last block even of a file that already has the size.
pub(super) fn set_size(file: impl AsFd, size: u64) -> rustix::io::Result<()> {
    if rustix::fs::fstat(&file)?.st_size as u64 == size { Ok(()) } else { rustix::fs::ftruncate(file, size) }
}
