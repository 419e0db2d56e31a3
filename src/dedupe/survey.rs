//! Examines one file at the least cost: where it lies, its samples, a hash of the whole file.

use super::facts::{Member, short};
use super::file::Opened;
use super::run::{Run, add};
use super::sample;
use super::skip::Skip;
use crate::extents::map::Map;
use crate::fs::fidedupe;
use crate::fs::filesystem::Kind;
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;

/// Opens a member's file. If that fails, the member is out.
pub(super) fn open(run: &Run<'_>, member: &mut Member) -> Option<Opened> {
    let opened = run.open(member.file);
    match &opened {
        Some(opened) => member.facts.changing |= !run.opener.is_as_seen(member.file, opened),
        None => member.out = true,
    }
    opened
}

/// Finds out where a file lies, unless that is known. Inline data has no place to share.
pub(super) fn place(run: &Run<'_>, member: &mut Member) {
    if member.facts.inline {
        return inline(run, member);
    }
    let Some(opened) = open(run, member) else { return };
    match Map::of(&opened, run.space(member.file), true) {
        Ok(map) if map.is_inline() => inline(run, member),
        Ok(map) => {
            let obstacle = opened.obstacle();
            // It can be neither source nor destination.
            if obstacle == Some(Skip::SwapFile) {
                return leave_out(run, member, Skip::SwapFile);
            }
            member.facts.set_map(member.file, &map);
            member.facts.fixed = obstacle.is_some();
            member.facts.nocow =
                run.catalogue.volume(member.file).kind == Kind::Btrfs && fidedupe::is_nocow(opened.as_fd());
        }
        Err(Errno::OPNOTSUPP | Errno::NOTTY) => leave_out(run, member, Skip::Unsupported),
        Err(errno) => fail(run, member, "read the extents of", errno),
    }
}

fn inline(run: &Run<'_>, member: &mut Member) {
    member.facts.inline = true;
    run.set_inline(member.file);
    leave_out(run, member, Skip::Inline);
}

/// Reads a file's samples.
pub(super) fn samples(run: &Run<'_>, member: &mut Member) {
    let Some(opened) = open(run, member) else { return };
    let size = run.catalogue.size(member.file);
    match sample::read(opened.as_fd(), size, opened.status().allocated < size) {
        Ok((hash, bytes)) => {
            add(&run.counters.read, bytes);
            member.facts.sample = Some(hash);
            member.facts.fresh = true;
            member.facts.changing |= !opened.is_untouched();
        }
        Err(Errno::STALE) => leave_out(run, member, Skip::Changed),
        Err(errno) => fail(run, member, "read", errno),
    }
}

/// Reads all of a file, unless its hash is known. `None` if that fails, and then the member is out; or if the run is
/// over.
pub(super) fn hash(run: &Run<'_>, member: &mut Member) -> Option<NonZeroU64> {
    if let Some(full) = member.facts.full {
        return Some(full);
    }
    let opened = open(run, member)?;
    let _ = rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::Sequential);
    let size = run.catalogue.size(member.file);
    match crate::content::hash::file(&opened, size, run.monitor) {
        Ok(hashed) => {
            add(&run.counters.read, hashed.read);
            member.facts.changing |= !opened.is_untouched();
            match &hashed.hash {
                Some(hash) => member.facts.full = Some(short(hash)),
                None => leave_out(run, member, Skip::Sparse),
            }
        }
        Err(Errno::CANCELED) => {}
        Err(errno) => fail(run, member, "read", errno),
    }
    member.facts.full
}

/// Removes a file from the run.
pub(super) fn leave_out(run: &Run<'_>, member: &mut Member, reason: Skip) {
    member.out = true;
    run.record_skip(member.file, reason);
}

/// Removes a file from the run because a system call failed.
pub(super) fn fail(run: &Run<'_>, member: &mut Member, action: &str, errno: Errno) {
    member.out = true;
    run.failed(member.file, action, errno);
}
