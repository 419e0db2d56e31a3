//! The entries of a directory. Each takes these steps in this order: it is looked up in the source and in the last
//! manifest; if the staging tree has it already, it is only recorded; otherwise `file` or `node` adds it. Directories
//! are handled by `directory`.

use super::context::Context;
use super::failure::Failure;
use super::file;
use super::hard_link;
use super::inherited_entry;
use super::large_file;
use super::node;
use super::planned;
use super::scope::Scope;
use super::source_entry::SourceEntry;
use super::staged::Staged;
use super::staged_directory::StagedDirectory;
use super::stats::Stats;
use super::target::Target;
use crate::error::{Error, Result};
use crate::monitor::{Amount, Change};
use crate::snapshot::manifest::{Entry, Item};
use crate::tree::walk::{Directory, Name, absolute};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Records for the manifest, in their order. Each has its difference from the last snapshot.
#[derive(Default)]
pub(super) struct Output {
    pub(super) items: Vec<(Item, Option<Change>)>,
    /// If it is the record of a directory: the part of the directory that is looked at.
    pub(super) scope: Scope,
}

/// Adds the entries of these names, `group` at a time, and returns their records.
pub(super) fn add(
    context: &Context<'_>,
    directory: &Directory<StagedDirectory>,
    names: &mut dyn Iterator<Item = Name<'_>>,
    group: usize,
    part: &mut Stats,
) -> Result<Output> {
    let mut output = Output::default();
    let mut names = names.peekable();
    let mut relation = None;
    let mut cursor = match (context.previous, names.peek()) {
        (Some(previous), Some(first)) => previous.reader.entries_from(&directory.path, first.bytes)?,
        _ => None,
    };
    while names.peek().is_some() {
        let mut found = Vec::with_capacity(group);
        for name in names.by_ref().take(group) {
            match SourceEntry::look_up(directory, name.bytes, &context.devices, &mut cursor, &mut relation) {
                Ok(entry) if context.filter.leaves_out(directory, entry.name, &entry.status) => {}
                Ok(entry) => found.push(entry),
                // The entry was deleted after the directory was listed.
                Err(Failure::Entry(Errno::NOENT)) => directory.note_missing(name.bytes),
                Err(Failure::Entry(errno)) => {
                    let error = Error::io("read the status of", absolute(&directory.join(name.bytes)), errno);
                    context.problem(&error, part);
                }
                Err(Failure::Run(error)) => return Err(error),
            }
        }
        if context.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        match &context.staged {
            Some(staged) => add_group(context, staged, directory, found, &mut output, part)?,
            None => output.items.extend(planned::entries(context, directory, &found, part)?),
        }
    }
    Ok(output)
}

/// Adds entries that have been looked up, and their records to `output` in their order.
fn add_group(
    context: &Context<'_>,
    staged: &Staged,
    directory: &Directory<StagedDirectory>,
    group: Vec<SourceEntry<'_>>,
    output: &mut Output,
    part: &mut Stats,
) -> Result<()> {
    let mut entries = Vec::with_capacity(group.len());
    let mut rest = Vec::new();
    for found in group {
        match inherited_entry::record(context, directory, &found, part)? {
            Some(entry) => {
                found.count(found.change, part);
                entries.push((entry, None));
            }
            None => rest.push(found),
        }
    }
    if !rest.is_empty() {
        let target = Target::open(context, staged, directory, part)?;
        add_anew(&target, &rest, &mut entries, part)?;
        entries.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    }
    entries.iter().for_each(|(entry, _)| large_file::carry_list(staged, entry));
    context.monitor.advance(Amount { files: entries.len() as u64, bytes: 0 });
    output.items.extend(entries.into_iter().map(|(entry, change)| (Item::Entry(entry), change)));
    Ok(())
}

/// Adds entries that the staging tree lacks or has in another state.
fn add_anew(
    target: &Target<'_>,
    group: &[SourceEntry<'_>],
    entries: &mut Vec<(Entry, Option<Change>)>,
    part: &mut Stats,
) -> Result<()> {
    let context = target.context;
    inherited_entry::make_room(target, group)?;
    let files = file::add_group(target, group, part)?;
    for (found, file) in group.iter().zip(files) {
        let entry = match found.status.file_type() {
            FileType::RegularFile => file,
            FileType::Directory => {
                let error = Error::failed("add").at(target.path(found));
                context.problem(&error.hint("it became a directory while its parent was read; run again"), part);
                None
            }
            _ => {
                let made = hard_link::add(target, found, part, |part| node::add(target, found, part))?;
                made.map(|added| added.entry)
            }
        };
        if let Some(mut entry) = entry {
            let is_settled = |old: &Entry| found.change.is_none() && old.meta.ctime == entry.meta.ctime;
            if !found.old.as_ref().is_some_and(is_settled) {
                let fd = &target.directory.fd;
                entry.meta.recheck |= context.devices.may_change_unnoticed(&entry.meta, found.old.as_ref(), fd);
            }
            found.count(found.change, part);
            entries.push((entry, found.change));
        }
    }
    Ok(())
}
