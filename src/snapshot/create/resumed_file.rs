//! Files that a killed run had finished are taken over from its tree, if their source has not changed since then.
//!
//! Written files are cloned, or moved if there are no reflinks. If a file was only read, its hash is taken over. The
//! tree is never taken over as a whole.
//!
//! A killed run may not have learnt that the disk refused its data, and the kernel reports that only once. Afterwards
//! the pages look clean, but the disk has other data. So a file with written data counts only if it is read back from
//! the disk and has the hash that was noted. A file that is a clone as a whole has no data of its own. In the same
//! session of the filesystem, its metadata is as it was made, so it counts by its inode and ctime.

use super::added_entry::AddedEntry;
use super::context::Context;
use super::failure::or_none;
use super::finished_list::{Finished, Made};
use super::large_file;
use super::new_file;
use super::resume::Past;
use super::source_entry::SourceEntry;
use super::source_file::SourceFile;
use super::stats::Stats;
use super::target::Target;
use crate::content::hash;
use crate::error::{Error, Result};
use crate::fs::direct_io;
use crate::fs::identity::Identity;
use crate::fs::metadata;
use crate::fs::openat;
use crate::fs::rename;
use crate::fs::status::Status;
use crate::monitor::Amount;
use crate::snapshot::manifest::{Body, Entry, FileBody, Meta, Stored};
use crate::util::path::split;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// Notes that a file is finished, in case this run is killed. `in_tree`: not only its hash but also the file in the
/// tree is worth taking over.
pub(super) fn note_finished(target: &Target<'_>, added: &AddedEntry, in_tree: bool) {
    let AddedEntry { entry, cost } = added;
    let devices = &target.context.devices;
    // A file that may change unnoticed, or cannot be recognised, is read again in any case.
    if entry.meta.recheck || devices.may_change_unnoticed(&entry.meta, None, &target.directory.fd) {
        return;
    }
    let Some(filesystem) = devices.identity(entry.meta.dev, &target.directory.fd) else { return };
    let content = cost.read_bytes + cost.copied_bytes + cost.resumed_bytes;
    let (Some(list), Body::File(file)) = (&target.staged.resume.list, &entry.body) else { return };
    if file.changed || content == 0 && cost.resumed_files == 0 {
        return;
    }
    let Meta { dev, ino, mtime, ctime, nlink, .. } = entry.meta;
    let made = |status: Status| Made { ino: status.ino, ctime: (nlink < 2).then_some(status.ctime) };
    let finished = Finished {
        path: target.directory.join(&entry.name),
        filesystem,
        dev,
        ino,
        size: file.size,
        mtime,
        ctime,
        holes: file.holes,
        hash: file.hash,
        stored: file.stored,
        written: cost.copied_bytes + cost.resumed_bytes,
        copy: in_tree.then(|| Status::at(target.above, &entry.name).ok().map(made)).flatten(),
    };
    list.add(&finished, content);
}

/// The hash of an open source, if a killed run had read it in this session.
pub(super) fn noted_hash(target: &Target<'_>, status: &Status, name: &[u8]) -> Option<[u8; 32]> {
    let path = target.directory.join(name);
    let filesystem = filesystem_of(target, status);
    let mut found = target.staged.resume.find(status, filesystem, &path).filter(|(past, _)| past.same_session);
    found.find_map(|(_, finished)| finished.hash)
}

/// Adds a file from the tree of a killed run, if that run had finished it.
pub(super) fn take_over(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    part: &mut Stats,
) -> Result<Option<AddedEntry>> {
    if target.staged.resume.past.is_empty() {
        return Ok(None);
    }
    let path = target.directory.join(found.name);
    let filesystem = filesystem_of(target, &source.status);
    for (past, finished) in target.staged.resume.find(&source.status, filesystem, &path) {
        if finished.hash.is_none() && target.context.hashes() {
            continue;
        }
        let Some((made, read)) = open_finished(target.context, past, &finished, part)? else { continue };
        let taken = if target.staged.filesystem.reflink {
            clone_finished(target, found, source, made)?
        } else {
            move_finished(target, found, source, past, &finished, &made)?
        };
        let Some(meta) = taken else { continue };
        let Finished { size, holes, hash, stored, written, .. } = finished;
        let data = size.saturating_sub(holes);
        let inline_bytes = if stored == Stored::Inline { data } else { 0 };
        let cost = Stats {
            bytes: size,
            read_bytes: read,
            resumed_files: 1,
            resumed_bytes: written,
            cloned_bytes: data.saturating_sub(written + inline_bytes),
            inline_bytes,
            hole_bytes: holes,
            ..Stats::default()
        };
        if let (large_file::LEAST.., Some(hash), Some(lists)) = (size, &hash, &past.blocks) {
            target.staged.blocks.carry_from(lists, hash);
        }
        let body = Body::File(FileBody { size, holes, hash, stored, changed: false });
        return Ok(Some(AddedEntry { entry: Entry { name: found.name.to_vec(), meta, body }, cost }));
    }
    Ok(None)
}

fn filesystem_of(target: &Target<'_>, source: &Status) -> Option<Identity> {
    target.context.devices.identity(source.dev, &target.directory.fd)
}

/// Opens a finished file in the tree of a killed run, if it is unchanged. Returns it with the number of bytes that were
/// read to check it. Bytes read in vain are added to `part`.
fn open_finished(
    context: &Context<'_>,
    past: &Past,
    finished: &Finished,
    part: &mut Stats,
) -> Result<Option<(OwnedFd, u64)>> {
    let Some(made) = finished.copy else { return Ok(None) };
    let Ok(fd) = openat::open_regular_at(past.tree.as_fd(), &finished.path) else { return Ok(None) };
    let Ok(status) = Status::of(&fd) else { return Ok(None) };
    let is_whole =
        (status.file_type(), status.size, status.mtime) == (FileType::RegularFile, finished.size, finished.mtime);
    if !is_whole {
        return Ok(None);
    }
    if past.same_session {
        let is_same = status.ino == made.ino && made.ctime.is_none_or(|ctime| ctime == status.ctime);
        if !is_same {
            return Ok(None);
        }
        if finished.written == 0 && finished.stored != Stored::Copied {
            return Ok(Some((fd, 0)));
        }
    }
    // Pages that are still in memory may differ from the disk.
    if finished.hash.is_none() || !direct_io::forget(&fd, status.size).unwrap_or(false) {
        return Ok(None);
    }
    match hash::file(&fd, status.size, context.monitor) {
        Ok(hashed) if hashed.hash == finished.hash => Ok(Some((fd, hashed.read))),
        Ok(hashed) => {
            part.read_bytes += hashed.read;
            Ok(None)
        }
        Err(Errno::CANCELED) => Err(Error::interrupted()),
        Err(_) => Ok(None),
    }
}

fn clone_finished(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    made: OwnedFd,
) -> Result<Option<Meta>> {
    let Ok(of_tree) = Status::of(&made) else { return Ok(None) };
    let cloned = or_none(new_file::clone(target, found, &source.with_content(made, of_tree.dev)))?;
    Ok(cloned.map(|added| Meta { dev: source.status.dev, ..added.entry.meta }))
}

fn move_finished(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    past: &Past,
    finished: &Finished,
    made: &OwnedFd,
) -> Result<Option<Meta>> {
    let (above, name) = split(&finished.path);
    let attributes = source.attributes(target.staged);
    let give = || {
        metadata::remove_other_xattrs(made, attributes.xattrs)?.removed()?;
        let refused = target.staged.creator.apply(made, &attributes)?;
        let above = openat::open_dir(past.tree.as_fd(), above)?;
        rename::without_replacing(above, name, target.above, found.name)?;
        Ok::<_, Errno>(refused)
    };
    // A file that cannot be moved is copied.
    let Ok(refused) = give() else { return Ok(None) };
    target.context.monitor.advance(Amount { files: 0, bytes: source.status.size });
    Ok(Some(source.meta(refused)))
}
