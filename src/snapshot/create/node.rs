//! Symbolic links, devices, named pipes and sockets. `file` handles regular files, `directory` handles directories.

use super::added_entry::{AddedEntry, incomplete, keep, unread_xattrs};
use super::source_entry::SourceEntry;
use super::stats::Stats;
use super::target::Target;
use crate::error::{Error, Result};
use crate::fs::metadata::{self, Attributes, Refused};
use crate::snapshot::manifest::{Body, Entry, Meta};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

/// Makes a link, device, named pipe or socket.
pub(super) fn add(target: &Target<'_>, found: &SourceEntry<'_>, part: &mut Stats) -> Result<Option<AddedEntry>> {
    let Target { staged, directory, above, .. } = target;
    let SourceEntry { name, status, .. } = found;
    let file_type = status.file_type();
    let (xattrs, unread) = metadata::readable_xattrs_at(&directory.fd, name);
    if let Some(errno) = unread.filter(|errno| *errno != Errno::NOENT) {
        target.context.problem(&unread_xattrs(target.path(found), errno), part);
    }
    let body = match file_type {
        FileType::Symlink => match rustix::fs::readlinkat(&directory.fd, *name, Vec::new()) {
            Ok(link) => Body::Symlink(link.into_bytes()),
            Err(Errno::NOENT) => {
                directory.note_missing(name);
                return Ok(None);
            }
            Err(errno) => {
                target.context.problem(&Error::io("read the link", target.path(found), errno), part);
                return Ok(None);
            }
        },
        FileType::Fifo => Body::Fifo,
        FileType::Socket => Body::Socket,
        _ => Body::Device(status.rdev.0, status.rdev.1),
    };
    let permissions = Mode::from_bits_truncate(status.mode & 0o777);
    let made = match &body {
        Body::Symlink(link) => rustix::fs::symlinkat(link.as_slice(), above, *name),
        _ => {
            let dev = rustix::fs::makedev(status.rdev.0, status.rdev.1);
            rustix::fs::mknodat(above, *name, file_type, permissions, dev)
        }
    };
    let mut meta = Meta::of(status, !xattrs.is_empty() || unread.is_some());
    if unread.is_some() {
        incomplete(&mut meta);
    }
    let attributes = Attributes::of(status, &xattrs);
    let in_manifest = || Refused { ownership: true, xattrs: xattrs.clone(), ..Refused::default() };
    let finished = made.and_then(|()| {
        let finished = staged.creator.finish_at(above, name, permissions.bits(), &attributes);
        // With only some of its metadata, the entry would be something else.
        finished.inspect_err(|_| {
            let _ = rustix::fs::unlinkat(above, *name, AtFlags::empty());
        })
    });
    match finished {
        Ok(refused) => keep(&mut meta, refused),
        // Only root may make device nodes; the manifest keeps this one.
        Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) if file_type != FileType::Symlink => {
            keep(&mut meta, in_manifest());
        }
        // The repository's filesystem refuses it, for example a link with a long target. The manifest has all of it.
        Err(errno) => {
            let hint = "only the manifest keeps it, and a restore to a filesystem that takes it brings it back";
            target.part_failed(name, errno, hint, part)?;
            keep(&mut meta, in_manifest());
            incomplete(&mut meta);
        }
    }
    Ok(Some(AddedEntry { entry: Entry { name: name.to_vec(), meta, body }, cost: Stats::default() }))
}
