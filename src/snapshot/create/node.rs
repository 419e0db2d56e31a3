//! Everything but directories and regular files: symbolic links, devices, named pipes, sockets.

use super::context::Target;
use super::record::{Brought, keep};
use super::seen::Seen;
use super::stats::Stats;
use crate::error::{Error, Result};
use crate::metadata::{self, Attributes, Refused};
use crate::snapshot::manifest::{Body, Entry, Meta};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

impl Target<'_> {
    /// Makes a link, device, named pipe or socket.
    pub(super) fn node(&self, seen: &Seen<'_>, part: &mut Stats) -> Result<Option<Brought>> {
        let Target { staged, directory, above, .. } = self;
        let Seen { name, status, .. } = seen;
        let file_type = status.file_type();
        let xattrs = match metadata::xattrs_at(&directory.fd, name) {
            Ok(xattrs) => xattrs,
            Err(errno) => {
                self.problem(&Error::io("read the extended attributes of", self.path(seen), errno), part);
                Vec::new()
            }
        };
        let body = match file_type {
            FileType::Symlink => match rustix::fs::readlinkat(&directory.fd, *name, Vec::new()) {
                Ok(target) => Body::Symlink(target.into_bytes()),
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => {
                    self.problem(&Error::io("read the link", self.path(seen), errno), part);
                    return Ok(None);
                }
            },
            FileType::Fifo => Body::Fifo,
            FileType::Socket => Body::Socket,
            _ => Body::Device(status.rdev.0, status.rdev.1),
        };
        let permissions = Mode::from_bits_truncate(status.mode & 0o777);
        let made = match &body {
            Body::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), above, *name),
            _ => {
                let dev = rustix::fs::makedev(status.rdev.0, status.rdev.1);
                rustix::fs::mknodat(above, *name, file_type, permissions, dev)
            }
        };
        let mut meta = Meta::of(status, !xattrs.is_empty());
        match made {
            Ok(()) => {
                let attributes = Attributes::of(status, &xattrs);
                let refused = staged.creator.finish_at(above, name, permissions.bits(), &attributes);
                keep(&mut meta, refused.map_err(|errno| self.cannot_make(name, errno))?);
            }
            // Device nodes are root's to make; the manifest keeps this one.
            Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {
                let attributes = Attributes::of(status, &xattrs);
                keep(&mut meta, Refused { ownership: true, xattrs: attributes.xattrs.to_vec(), ..Refused::default() });
            }
            Err(errno) => return Err(self.cannot_make(name, errno)),
        }
        Ok(Some(Brought { entry: Entry { name: name.to_vec(), meta, body }, cost: Stats::default() }))
    }
}
