//! The dry run's answer to the same question that `share` puts to the kernel: which files are equal, and what would be freed.
//!
//! Equality is found by reading both files, window by window as the kernel would; where the samples are all of the data,
//! they tell. What one user's rights and the files' flags forbid is found out by asking.

use super::account::Unit;
use super::facts::Member;
use super::file::Opened;
use super::map::Map;
use super::run::{Run, add};
use super::sample::WHOLE;
use super::share::{ranges, windows};
use super::skip::Skip;
use super::submit;
use super::survey;
use crate::monitor::Amount;
use crate::positioned::{prefetch, read_exact};
use rustix::io::{Errno, Result};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};

/// Tells of all of `others` that are equal to the source, and gives those that are not.
pub(super) fn share<'m>(
    run: &Run<'_>,
    source: &Member,
    opened: &Opened,
    map: &Map,
    others: Vec<&'m mut Member>,
) -> Vec<&'m mut Member> {
    let mut holders: HashMap<u64, usize> = HashMap::new();
    for member in &others {
        *holders.entry(member.facts.layout).or_default() += 1;
    }
    let several: HashSet<u64> = holders.iter().filter(|(_, files)| **files > 1).map(|(layout, _)| *layout).collect();
    let mut prediction = Prediction { run, source, opened, map, buffers: Buffers::default(), is_cached: false };
    let (mut differing, mut layouts) = (Vec::new(), HashSet::new());
    for member in others {
        if run.is_over() {
            break;
        }
        let layout = member.facts.layout;
        let left = holders.entry(layout).or_default();
        *left -= 1;
        // Of several that share, the last one frees: as it will be when they are handed over one after the other.
        let is_last = *left == 0 && several.contains(&layout);
        let differs = layouts.contains(&layout) || prediction.differs(member, is_last);
        if differs {
            layouts.insert(layout);
            differing.push(member);
        }
    }
    differing
}

struct Prediction<'a, 'r> {
    run: &'a Run<'r>,
    source: &'a Member,
    opened: &'a Opened,
    map: &'a Map,
    buffers: Buffers,
    is_cached: bool,
}

impl Prediction<'_, '_> {
    /// Books what sharing this file would free, and gives whether it differs.
    fn differs(&mut self, member: &mut Member, is_last: bool) -> bool {
        let run = self.run;
        let size = run.catalogue.size(member.file);
        let volume = run.catalogue.volume(member.file);
        let Some(opened) = survey::open(run, member) else { return false };
        if let Some(reason) = submit::obstacle(&opened) {
            survey::leave_out(run, member, reason);
            return false;
        }
        let before = match Map::of(&opened, false) {
            Ok(before) => before,
            Err(errno) => {
                survey::fail(run, member, "read the extents of", errno);
                return false;
            }
        };
        let ranges = ranges(self.map, &before, size, volume.block_size.max(1));
        // Samples of all the data are as good as a comparison.
        let is_known = size <= WHOLE && self.source.facts.sample == member.facts.sample;
        let mut shared = Shared { until: size, bytes: ranges.iter().map(|range| range.end - range.start).sum() };
        if !is_known {
            match self.compare(opened.as_fd(), &ranges, size) {
                Ok(found) => shared = found,
                Err(Errno::CANCELED) => return false,
                Err(Errno::STALE) => {
                    survey::leave_out(run, member, Skip::Changed);
                    return false;
                }
                Err(errno) => {
                    survey::fail(run, member, "read", errno);
                    return false;
                }
            }
        }
        self.tell(member, &shared, size);
        let until = if shared.until == size { size.next_multiple_of(volume.block_size.max(1)) } else { shared.until };
        let after = before.with_beginning_of(self.map, until);
        let before = if is_last && shared.until == size { before.unshared() } else { before };
        run.account.book(&before, &after, Unit::of(volume.kind));
        if shared.until < size {
            member.facts.set_map(member.file, &after);
        } else {
            run.settle(member.file);
        }
        shared.until < size
    }

    fn tell(&self, member: &Member, shared: &Shared, size: u64) {
        let counters = &self.run.counters;
        add(&counters.submitted, shared.bytes);
        if shared.until < size {
            add(&counters.ranges, shared.bytes);
        } else if shared.bytes > 0 {
            add(&counters.duplicate_files, 1);
            add(&counters.duplicate_bytes, size);
        }
        if shared.bytes > 0 {
            let path = |file| self.run.catalogue.path(file);
            self.run.monitor.sharing(&path(self.source.file), &path(member.file), shared.bytes);
        }
    }

    /// Compares the ranges window by window: up to where the kernel would share them.
    fn compare(&mut self, other: BorrowedFd<'_>, ranges: &[Range<u64>], size: u64) -> Result<Shared> {
        let mut bytes = 0;
        let windows = windows(ranges);
        for window in &windows {
            if self.run.is_over() {
                return Err(Errno::CANCELED);
            }
            let length = window.end - window.start;
            prefetch(self.opened.as_fd(), window.clone());
            prefetch(other, window.clone());
            add(&self.run.counters.read, length * if self.is_cached { 1 } else { 2 });
            if !self.buffers.are_equal(self.opened.as_fd(), other, window.clone())? {
                return Ok(Shared { until: window.start, bytes });
            }
            bytes += length;
            let told = if size > submit::WINDOW { length } else { 0 };
            self.run.monitor.advance(Amount { files: 0, bytes: told });
        }
        self.is_cached = size <= submit::WINDOW;
        Ok(Shared { until: size, bytes })
    }
}

/// Up to where two files are equal, in whole windows, and how much of that would be handed over.
struct Shared {
    until: u64,
    bytes: u64,
}

/// Room to read two files into.
struct Buffers {
    one: Vec<u8>,
    other: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        const LENGTH: usize = 256 << 10;
        Buffers { one: vec![0; LENGTH], other: vec![0; LENGTH] }
    }
}

impl Buffers {
    fn are_equal(&mut self, one: BorrowedFd<'_>, other: BorrowedFd<'_>, range: Range<u64>) -> Result<bool> {
        let mut at = range.start;
        while at < range.end {
            let length = self.one.len().min((range.end - at) as usize);
            read_exact(one, &mut self.one[..length], at)?;
            read_exact(other, &mut self.other[..length], at)?;
            if self.one[..length] != self.other[..length] {
                return Ok(false);
            }
            at += length as u64;
        }
        Ok(true)
    }
}
