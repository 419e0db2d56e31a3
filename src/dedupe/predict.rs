//! The dry run of `share`: finds out which files are equal, and how much would be freed.
//!
//! It compares both files window by window, as the kernel would. If the samples cover all of the data, they decide.
//! Permissions and flags that forbid sharing are checked.

use super::facts::Member;
use super::file::Opened;
use super::planned::Twin;
use super::run::{Run, add};
use super::sample::WHOLE;
use super::skip::Skip;
use super::survey;
use super::windows::{self, at_once, ranges, rounds};
use crate::extents::bound::Bound;
use crate::extents::map::Map;
use crate::extents::ranges::length;
use crate::fs::fidedupe;
use crate::fs::pread::{prefetch, read_exact};
use crate::monitor::Amount;
use rustix::io::{Errno, Result};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};

/// Plans to share the source with all of `others` that are equal to it, and returns those that differ.
pub(super) fn share<'m>(
    run: &Run<'_>,
    source: &Member,
    opened: &Opened,
    map: &Map,
    others: Vec<&'m mut Member>,
) -> Vec<&'m mut Member> {
    let rounds = rounds(others);
    let last_rounds = last_rounds(&rounds);
    let (buffers, reached) = (Buffers::default(), HashMap::new());
    let mut prediction = Prediction { run, source, opened, map, buffers, is_cached: false, reached };
    let (mut differing, mut layouts) = (Vec::new(), HashSet::new());
    let at_once = at_once(run.catalogue.size(source.file));
    // In the order of the run, which submits up to `at_once` files together.
    for (round, members) in rounds.into_iter().enumerate() {
        let mut members = members.into_iter().peekable();
        while members.peek().is_some() {
            prediction.reached.clear();
            for member in members.by_ref().take(at_once) {
                if run.is_over() {
                    return differing;
                }
                let layout = member.facts.layout;
                // The last of several holders of an extent frees it: the run submits them one after the other.
                let is_last = round > 0 && last_rounds.get(&layout) == Some(&round);
                let differs = layouts.contains(&layout) || prediction.differs(member, is_last);
                if differs {
                    layouts.insert(layout);
                    differing.push(member);
                }
            }
        }
    }
    differing
}

/// For each layout, the last round with a member that has it.
fn last_rounds(rounds: &[Vec<&mut Member>]) -> HashMap<u64, usize> {
    let numbered = rounds.iter().enumerate();
    numbered.flat_map(|(round, members)| members.iter().map(move |member| (member.facts.layout, round))).collect()
}

struct Prediction<'a, 'r> {
    run: &'a Run<'r>,
    source: &'a Member,
    opened: &'a Opened,
    map: &'a Map,
    buffers: Buffers,
    is_cached: bool,
    /// The offset up to which the source was read, by ranges, for destinations submitted together that need the same
    /// ranges.
    reached: HashMap<Vec<Range<u64>>, u64>,
}

impl Prediction<'_, '_> {
    /// Books the bytes that sharing this file would free, and returns whether the file differs.
    fn differs(&mut self, member: &mut Member, is_last: bool) -> bool {
        let run = self.run;
        let size = run.catalogue.size(member.file);
        let volume = run.catalogue.volume(member.file);
        let Some(opened) = survey::open(run, member) else { return false };
        if let Some(reason) = opened.obstacle() {
            survey::leave_out(run, member, reason);
            return false;
        }
        let before =
            match run.planned.map(member.file).map_or_else(|| Map::of(&opened, run.space(member.file), false), Ok) {
                Ok(before) => before,
                Err(errno) => {
                    survey::fail(run, member, "read the extents of", errno);
                    return false;
                }
            };
        let block = volume.block_size.max(1);
        let ranges = ranges(self.map, &before, size, block);
        // Samples of all the data are as good as a comparison.
        let is_known = size <= WHOLE && self.source.facts.sample == member.facts.sample;
        let mut shared = Shared { until: size, bytes: length(&ranges) };
        if is_known {
            add(&run.counters.submitted, shared.bytes);
        } else {
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
        let after = before.with_ranges_of(self.map, &windows::shared(&ranges, shared.until, block));
        let account = run.account(member.file);
        let mut held = account.held(opened.as_fd(), &before).unwrap_or_else(|| before.clone());
        if is_last && shared.until == size && held.is_shared() {
            // Something outside the scope may share them as well; the kernel does not report how many holders there
            // are.
            account.limit(Bound::AtMost);
            held = held.unshared();
        }
        account.book(&held, &after);
        if shared.until < size {
            member.facts.set_map(member.file, &after);
            if shared.until != 0 {
                let twin = Twin { source: self.source.file, end: shared.until };
                run.planned.share_beginning(member.file, twin, after);
            }
        } else {
            self.resize_list(opened.as_fd(), &before);
            run.settle(member.file);
            run.planned.share_all(member.file, self.source.file);
        }
        shared.until < size
    }

    /// Books the list of the file's extents: afterwards it is as long as the source's list.
    fn resize_list(&self, file: BorrowedFd<'_>, before: &Map) {
        let many = before.has_many_extents() || self.map.has_many_extents();
        let account = self.run.account(self.source.file);
        let lists = account.list_bytes(file, before, many).zip(account.list_bytes(self.opened.as_fd(), self.map, many));
        if let Some((list, source)) = lists
            && list != source
        {
            account.resize_list(list, source);
            account.limit(Bound::About);
        }
    }

    fn tell(&self, member: &Member, shared: &Shared, size: u64) {
        let counters = &self.run.counters;
        if shared.until < size {
            add(&counters.ranges, shared.bytes);
        } else if shared.bytes != 0 {
            add(&counters.duplicate_files, 1);
            add(&counters.duplicate_bytes, size);
        }
        if shared.bytes != 0 {
            let path = |file| self.run.catalogue.path(file);
            self.run.monitor.sharing(&path(self.source.file), &path(member.file), shared.bytes);
        }
    }

    /// Compares the ranges window by window, up to where the kernel would share them.
    fn compare(&mut self, other: BorrowedFd<'_>, ranges: &[Range<u64>], size: u64) -> Result<Shared> {
        let mut bytes = 0;
        let windows = windows::cut(ranges);
        let mut reached = self.reached.get(ranges).copied().unwrap_or(0);
        for window in &windows {
            if self.run.is_over() {
                return Err(Errno::CANCELED);
            }
            let length = window.end - window.start;
            prefetch(self.opened.as_fd(), window.clone());
            prefetch(other, window.clone());
            let counters = &self.run.counters;
            add(&counters.submitted, length);
            add(&counters.read, length * if self.is_cached || window.end <= reached { 1 } else { 2 });
            reached = reached.max(window.end);
            self.reached.insert(ranges.to_vec(), reached);
            if !self.buffers.are_equal(self.opened.as_fd(), other, window.clone())? {
                return Ok(Shared { until: window.start, bytes });
            }
            bytes += length;
            let reported = if windows::are_reported(size) { length } else { 0 };
            self.run.monitor.advance(Amount { files: 0, bytes: reported });
        }
        self.is_cached = size <= fidedupe::WINDOW;
        Ok(Shared { until: size, bytes })
    }
}

/// The offset up to which two files are equal, in whole windows, and the number of bytes that would be submitted.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_are_compared_to_the_last_byte_of_the_range() {
        let mut buffers = Buffers::default();
        let length = 2 * buffers.one.len() + 100;
        let file = |content: &[u8]| {
            let file = tempfile::tempfile().unwrap();
            rustix::io::pwrite(&file, content, 0).unwrap();
            file
        };
        let content = vec![7; length];
        let one = file(&content);
        for place in [0, length / 2, length - 1] {
            let mut changed = content.clone();
            changed[place] = 8;
            let other = file(&changed);
            let mut equal = |range: Range<usize>| {
                buffers.are_equal(one.as_fd(), other.as_fd(), range.start as u64..range.end as u64).unwrap()
            };
            assert!(!equal(0..length), "{place}");
            assert!(!equal(place..place + 1), "{place}");
            assert!(equal(0..place) && equal(place + 1..length), "{place}");
        }
    }
}
