//! Submits the files of a group to the kernel, one source with many destinations, window by window. While the kernel
//! compares one window, the next is being read. Only ranges that are not yet in the same place are submitted.

use super::facts::Member;
use super::file::Opened;
use super::predict;
use super::run::{Run, add};
use super::sample::WHOLE;
use super::skip::Skip;
use super::survey;
use super::windows::{self, at_once, ranges, rounds};
use crate::extents::map::Map;
use crate::fs::fidedupe::{self, WINDOW};
use crate::fs::pread::prefetch;
use crate::monitor::Amount;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};

/// The outcome for one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// All of it is equal to the source, and is now in the same place.
    Same,
    /// It was not changed from some point on, for this reason.
    Skipped(Skip),
    /// The run ended first.
    Unfinished,
}

/// Shares the source with all of `others` that are equal to it, and returns those that differ.
pub(super) fn share<'m>(
    run: &Run<'_>,
    source: &mut Member,
    opened: &Opened,
    others: Vec<&'m mut Member>,
) -> Vec<&'m mut Member> {
    let map = match run.planned.map(source.file).map_or_else(|| Map::of(opened, run.space(source.file), false), Ok) {
        Ok(map) => map,
        Err(errno) => {
            survey::fail(run, source, "read the extents of", errno);
            return others;
        }
    };
    if run.dry_run {
        return predict::share(run, source, opened, &map, others);
    }
    let volume = run.catalogue.volume(source.file);
    let transfer = Transfer {
        run,
        source: opened.as_fd(),
        map,
        size: run.catalogue.size(source.file),
        block: volume.block_size.max(1),
        is_cached: Cell::new(source.facts.fresh && run.catalogue.size(source.file) <= WHOLE),
    };
    let at_once = at_once(transfer.size);
    let (mut differing, mut layouts) = (Vec::new(), HashSet::new());
    for mut round in rounds(others) {
        while !round.is_empty() && !run.is_over() && !run.is_unsupported(source.file) {
            // A file in the same place as one that differs need not be compared.
            let known;
            (known, round) = round.into_iter().partition(|member| layouts.contains(&member.facts.layout));
            differing.extend(known);
            let rest = round.split_off(round.len().min(at_once));
            for (member, answer) in transfer.batch(round) {
                let identity = source.identity;
                match answer {
                    Answer::Same => member.facts.set_compared(identity, true),
                    Answer::Skipped(Skip::Differs) => {
                        member.facts.set_compared(identity, false);
                        layouts.insert(member.facts.layout);
                        differing.push(member);
                    }
                    Answer::Skipped(reason) => {
                        survey::leave_out(run, member, reason);
                    }
                    Answer::Unfinished => {}
                }
            }
            round = rest;
        }
    }
    source.facts.changing |= !opened.is_untouched();
    differing
}

struct Transfer<'a, 'r> {
    run: &'a Run<'r>,
    source: BorrowedFd<'a>,
    map: Map,
    size: u64,
    block: u64,
    /// The source has been read, and is counted as read.
    is_cached: Cell<bool>,
}

impl Transfer<'_, '_> {
    /// Shares the source with some members, each in a different place.
    fn batch<'m>(&self, members: Vec<&'m mut Member>) -> Vec<(&'m mut Member, Answer)> {
        let mut open = Vec::new();
        for member in members {
            let Some(opened) = survey::open(self.run, member) else { continue };
            // Files that the kernel would refuse anyway are not read.
            match opened.obstacle() {
                Some(reason) => survey::leave_out(self.run, member, reason),
                None => open.push((member, opened)),
            }
        }
        let fds: Vec<_> = open.iter().map(|(_, opened)| opened.as_fd()).collect();
        let fresh: Vec<_> = open.iter().map(|(member, _)| member.facts.fresh && self.size <= WHOLE).collect();
        let Some((first, _)) = open.first() else { return Vec::new() };
        let (account, many) = (self.run.account(first.file), self.map.has_many_extents());
        let watched = account.watch(&fds, many, |maps| self.submit(&fds, &fresh, maps));
        let (answers, after) = match watched {
            Ok(watched) => watched,
            Err(errno) => {
                for (member, _) in open {
                    survey::fail(self.run, member, "read the extents of", errno);
                }
                return Vec::new();
            }
        };
        let mut concluded = Vec::new();
        for (((member, opened), (answer, moved)), map) in open.into_iter().zip(answers).zip(after) {
            self.conclude(member, answer, moved, map.as_ref());
            member.facts.changing |= !opened.is_untouched();
            concluded.push((member, answer));
        }
        concluded
    }

    fn conclude(&self, member: &mut Member, answer: Answer, moved: u64, map: Option<&Map>) {
        let counters = &self.run.counters;
        match answer {
            Answer::Same if moved > 0 => {
                add(&counters.duplicate_files, 1);
                add(&counters.duplicate_bytes, self.size);
            }
            Answer::Same => {}
            Answer::Skipped(_) | Answer::Unfinished => add(&counters.ranges, moved),
        }
        if answer == Answer::Same {
            self.run.settle(member.file);
        }
        if let Some(map) = map
            && (moved > 0 || answer == Answer::Same)
        {
            member.facts.set_map(member.file, map);
            member.facts.moved |= moved > 0;
        }
    }

    /// Submits the data that is not yet shared. Returns the outcome for each destination, and how much of it was
    /// shared.
    fn submit(&self, fds: &[BorrowedFd<'_>], fresh: &[bool], maps: &[Map]) -> Vec<(Answer, u64)> {
        let mut outcomes = vec![(Answer::Same, 0); fds.len()];
        // Usually none of the destinations shares anything yet: then they are submitted together.
        let mut alike: HashMap<Vec<Range<u64>>, Vec<usize>> = HashMap::new();
        for (number, map) in maps.iter().enumerate() {
            alike.entry(ranges(&self.map, map, self.size, self.block)).or_default().push(number);
        }
        for (ranges, mut numbers) in alike {
            let windows = windows::cut(&ranges);
            self.prefetch(windows.first(), fds, &numbers, fresh);
            for (number, window) in windows.iter().enumerate() {
                if numbers.is_empty() {
                    break;
                }
                if self.run.is_over() {
                    numbers.iter().for_each(|&number| outcomes[number].0 = Answer::Unfinished);
                    break;
                }
                self.prefetch(windows.get(number + 1), fds, &numbers, fresh);
                self.window(window, fds, fresh, &mut numbers, &mut outcomes);
            }
            self.is_cached.set(self.is_cached.get() || self.size <= WINDOW);
        }
        outcomes
    }

    /// Submits one window. Destinations that are not equal are removed from `numbers`.
    fn window(
        &self,
        window: &Range<u64>,
        fds: &[BorrowedFd<'_>],
        fresh: &[bool],
        numbers: &mut Vec<usize>,
        outcomes: &mut [(Answer, u64)],
    ) {
        let length = window.end - window.start;
        let places: Vec<_> = numbers.iter().map(|&number| (fds[number], window.start)).collect();
        let cold = numbers.iter().filter(|&&number| !fresh[number]).count() as u64;
        let counters = &self.run.counters;
        add(&counters.submitted, length * numbers.len() as u64);
        add(&counters.read, length * (cold + u64::from(!self.is_cached.get())));
        let answers = fidedupe::submit((self.source, window.start), length, &places);
        let mut answers = answers.into_iter();
        numbers.retain(|&number| match answers.next().flatten() {
            None => {
                outcomes[number].1 += length;
                true
            }
            Some(reason) => {
                outcomes[number].0 = Answer::Skipped(reason);
                false
            }
        });
        let bytes = if windows::are_reported(self.size) { length * places.len() as u64 } else { 0 };
        self.run.monitor.advance(Amount { files: 0, bytes });
    }

    fn prefetch(&self, window: Option<&Range<u64>>, fds: &[BorrowedFd<'_>], numbers: &[usize], fresh: &[bool]) {
        let Some(window) = window else { return };
        if !self.is_cached.get() {
            prefetch(self.source, window.clone());
        }
        for &number in numbers.iter().filter(|&&number| !fresh[number]) {
            prefetch(fds[number], window.clone());
        }
    }
}
