//! Writes the rest of extents to unnamed files, and moves the files' ranges there. The kernel compares before it
//! shares, so a concurrent write is never lost.

use super::context::Context;
use super::scratch::Manner;
use super::share::{self, move_onto};
use super::victims::{Reference, Victim};
use crate::content::rewrite;
use crate::extents::bound::Bound;
use crate::extents::map::Map;
use crate::extents::piece::Piece;
use crate::fs::fidedupe::is_nocow;
use crate::fs::pread;
use crate::monitor::Event;
use rustix::fs::fdatasync;
use rustix::io::{Errno, Result};
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};

/// The most bytes written to one unnamed file: half of the largest extent.
const GROUP: u64 = 64 << 20;
/// A range of an extent, and the reference through which it is read.
struct Item<'v> {
    victim: &'v Victim,
    /// Its number among the victims.
    number: usize,
    /// A reference through which it can be read.
    reference: Reference,
    range: Range<u64>,
    /// Where it was written.
    at: u64,
}

/// Moves the rest of these extents. Returns the bytes written, and the numbers of extents that could not be released.
pub(super) fn rewrite(victims: &[(usize, &Victim)], context: &mut Context<'_>) -> (u64, Vec<usize>) {
    let (mut written, mut failed) = (0, Vec::new());
    let mut items = all_items(victims);
    let mut rest = &mut items[..];
    while !rest.is_empty() && !context.run.monitor.is_cancelled() {
        let (group, later) = rest.split_at_mut(first_group(rest, context.block));
        if context.run.dry_run {
            written += plan(group, context);
            rest = later;
            continue;
        }
        match write(group, context) {
            Ok((file, length)) => {
                written += length;
                settle(&file, group, context, &mut failed);
            }
            Err(errno) => {
                let error = crate::error::Error::io("write anew the rest of an extent of", path(group, context), errno);
                context.run.monitor.event(Event::NotFreed(&error));
                failed.extend(group.iter().map(|item| item.number));
            }
        }
        rest = later;
    }
    failed.extend(rest.iter().map(|item| item.number));
    (written, failed)
}

/// Plans to write a group to its own file, and to move all references to the items there. Returns the bytes that this
/// would write. For compressed extents the number is an estimate, since the same bytes compress differently elsewhere.
fn plan(group: &[Item<'_>], context: &mut Context<'_>) -> u64 {
    let lead = lead(group, context.block);
    let length = group.iter().map(|item| item.range.end - item.range.start).sum::<u64>();
    let disk = (lead + length).next_multiple_of(context.block);
    let extent = context.account.space().at(context.files.plan_extent(disk));
    let mut at = lead;
    for item in group {
        let refers = |reference: &&Reference| reference.within(item.range.start, item.range.end).is_some();
        let shared = item.victim.references.iter().filter(refers).count() > 1;
        for reference in &item.victim.references {
            let Some((logical, length)) = reference.within(item.range.start, item.range.end) else { continue };
            if context.files.is_refused(reference.file) {
                continue;
            }
            let offset = at + reference.offset.max(item.range.start) - item.range.start;
            let piece = Piece { offset, disk, shared, ..Piece::plain(logical, length, extent) };
            let place = (reference.file, logical);
            share::plan_move(place, length, piece, context.run, context.account, &mut context.files);
        }
        at += item.range.end - item.range.start;
    }
    if group.iter().any(|item| item.victim.encoded) {
        context.account.limit(Bound::About);
        return group.iter().map(|item| item.victim.on_disk(item.range.end - item.range.start, context.block)).sum();
    }
    disk
}

/// The items to move: compressed extents separately, and each file's items in the order in which they can be read.
fn all_items<'v>(victims: &[(usize, &'v Victim)]) -> Vec<Item<'v>> {
    let mut items: Vec<_> = victims.iter().flat_map(|&(number, victim)| items(number, victim)).collect();
    items.sort_by_key(|item| (item.victim.encoded, item.reference.file));
    items
}

/// The padding before a group. Data smaller than a block would be stored inline in the metadata, where it cannot be
/// shared.
fn lead(group: &[Item<'_>], block: u64) -> u64 {
    if group.iter().all(|item| item.range.end - item.range.start < block) { block } else { 0 }
}

fn path(group: &[Item<'_>], context: &Context<'_>) -> std::path::PathBuf {
    let file = group.first().map_or(0, |item| item.reference.file);
    context.run.catalogue.path(crate::dedupe::catalogue::FileId(file))
}

/// The parts of one extent to move, cut to fit into a group.
fn items(number: usize, victim: &Victim) -> impl Iterator<Item = Item<'_>> {
    victim.rest().into_iter().flat_map(move |(reference, range)| {
        let parts = (range.end - range.start).div_ceil(GROUP);
        (0..parts).map(move |part| {
            let start = range.start + part * GROUP;
            Item { victim, number, reference, range: start..range.end.min(start + GROUP), at: 0 }
        })
    })
}

/// The number of items that go into one file: all of the same kind, up to the size of a group. A partial block at a
/// file's end can only be the last.
fn first_group(items: &[Item<'_>], block: u64) -> usize {
    let mut length = 0;
    for (number, item) in items.iter().enumerate() {
        length += item.range.end - item.range.start;
        let is_alike = item.victim.encoded == items[0].victim.encoded && item.reference.file == items[0].reference.file;
        if number > 0 && (length > GROUP || !is_alike) {
            return number;
        }
        if !length.is_multiple_of(block) {
            return number + 1;
        }
    }
    items.len()
}

/// Writes a group to its own file. Returns the file, and the bytes that it takes on the disk.
fn write(group: &mut [Item<'_>], context: &mut Context<'_>) -> Result<(OwnedFd, u64)> {
    let Some(first) = group.first() else { return Err(Errno::INVAL) };
    let (number, encoded) = (first.reference.file, first.victim.encoded);
    let source = context.files.get(number).ok_or(Errno::NOENT)?;
    let manner = Manner { nocow: is_nocow(source.as_fd()), compressed: encoded };
    let file = context.scratch.file(number, manner)?;
    let mut at = lead(group, context.block);
    if at > 0 {
        pread::write_all(&file, &vec![0xa5; at as usize], 0)?;
    }
    for item in group {
        let Some((from, length)) = item.reference.within(item.range.start, item.range.end) else { continue };
        item.at = at;
        rewrite::copy((&*source, from), (&file, at), length).map_err(rewrite::Failure::errno)?;
        at += length;
    }
    fdatasync(&file)?;
    // Fewer bytes than were written, if the filesystem compresses.
    let taken = Map::of(&file, context.account.space(), true)?.bytes();
    Ok((file, taken))
}

/// Moves all references to the items to the copy in `file`.
fn settle(file: &OwnedFd, group: &[Item<'_>], context: &mut Context<'_>, failed: &mut Vec<usize>) {
    for item in group {
        for reference in &item.victim.references {
            let Some((logical, length)) = reference.within(item.range.start, item.range.end) else { continue };
            let ahead = reference.offset.max(item.range.start) - item.range.start;
            let there = (file.as_fd(), item.at + ahead);
            if move_onto(there, (reference.file, logical), length, context.run, &mut context.files) < length {
                failed.push(item.number);
            }
        }
    }
}
