//! A dry run: how an entry that is not the same as in the last snapshot differs from it, as `diff` shows it after the
//! snapshot. A file is read only if its size is equal and the last snapshot has its hash.

use super::context::Context;
use super::source_entry::SourceEntry;
use super::stats::Stats;
use crate::error::{Error, Result};
use crate::fs::status::Status;
use crate::monitor::{Amount, Change};
use crate::snapshot::compare_records::{Judge, Side, state};
use crate::snapshot::live_record;
use crate::snapshot::manifest::{Body, Directory as Record, Entry, Item, Meta};
use crate::tree::walk::{Directory, absolute};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::AsFd as _;

/// The entries of a directory as a snapshot would record them, each with its difference from the last one. An entry
/// that a snapshot could not read is reported and not among them.
pub(super) fn entries<P>(
    context: &Context<'_>,
    directory: &Directory<P>,
    group: &[SourceEntry<'_>],
    part: &mut Stats,
) -> Result<Vec<(Item, Option<Change>)>> {
    let mut items = Vec::with_capacity(group.len());
    for found in group {
        let change = match (found.change, &found.old) {
            (Some(Change::Content | Change::Metadata), Some(old)) => {
                match entry(context, directory, found, old, part) {
                    Ok(change) => change,
                    // The entry was deleted after the directory was listed.
                    Err(Errno::NOENT) => {
                        directory.note_missing(found.name);
                        continue;
                    }
                    Err(Errno::CANCELED) => return Err(Error::interrupted()),
                    Err(errno) => {
                        context.problem(&Error::io("open", absolute(&directory.join(found.name)), errno), part);
                        continue;
                    }
                }
            }
            (change, _) => change,
        };
        found.count(change, part);
        let is_file = found.status.file_type() == FileType::RegularFile;
        part.metadata_files += u64::from(is_file && change == Some(Change::Metadata));
        items.push((Item::Entry(found.planned()), change));
    }
    context.monitor.advance(Amount { files: group.len() as u64, bytes: 0 });
    Ok(items)
}

/// How an open directory differs from the last snapshot's.
pub(super) fn directory<P>(
    context: &Context<'_>,
    directory: &Directory<P>,
    part: &mut Stats,
) -> Result<Option<Change>> {
    let Some(old) = old_directory(context, &directory.path)? else { return Ok(Some(Change::Added)) };
    let status = &directory.status;
    if directory.scaffold || (old.meta.ctime, old.meta.ino) == (status.ctime, status.ino) {
        return Ok(None);
    }
    let reader = live_record::Reader::new(context.monitor);
    let new = Record { meta: reader.directory(&directory.fd, status), ..old.clone() };
    Ok(judge(context, &directory.path, (&Item::Directory(old), &Item::Directory(new)), part))
}

/// How a directory that is not opened differs from the last snapshot's.
pub(super) fn closed_directory(context: &Context<'_>, path: &[u8], status: &Status) -> Result<Option<Change>> {
    let Some(old) = old_directory(context, path)? else { return Ok(Some(Change::Added)) };
    let new = Record { meta: Meta::of(status, false), ..old.clone() };
    let is_same = state(&Item::Directory(old)) == state(&Item::Directory(new));
    Ok((!is_same).then_some(Change::Metadata))
}

fn old_directory(context: &Context<'_>, path: &[u8]) -> Result<Option<Record>> {
    match context.previous {
        Some(previous) => Ok(previous.reader.directory(path)?.map(|cursor| cursor.directory().clone())),
        None => Ok(None),
    }
}

fn entry<P>(
    context: &Context<'_>,
    directory: &Directory<P>,
    found: &SourceEntry<'_>,
    old: &Entry,
    part: &mut Stats,
) -> rustix::io::Result<Option<Change>> {
    let reader = live_record::Reader::new(context.monitor);
    let mut known = old.clone();
    if !context.hashes()
        && let Body::File(file) = &mut known.body
    {
        // The snapshot will have no hash to compare with.
        file.hash = None;
    }
    let new = reader.entry(directory.fd.as_fd(), found.name, &found.status, &known)?;
    part.read_bytes += reader.read_bytes();
    Ok(judge(context, &directory.path, (&Item::Entry(old.clone()), &Item::Entry(new)), part))
}

fn judge(context: &Context<'_>, directory: &[u8], items: (&Item, &Item), part: &mut Stats) -> Option<Change> {
    let previous = context.previous?;
    let old = Side::snapshot(&previous.reader, &previous.tree);
    let mut judge = Judge { old, new: Side::live(&context.devices) };
    judge.judge(directory, items, &mut |error| context.problem(error, part))
}
