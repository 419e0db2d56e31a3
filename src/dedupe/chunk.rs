//! The steps for one chunk of files: find out where each file lies, read samples of files in different places, group
//! the files that look equal, and submit the groups to the kernel.

use super::cache::Cache;
use super::candidates::{Candidates, Class};
use super::catalogue::FileId;
use super::facts::Member;
use super::group;
use super::run::{Run, add};
use super::sample::WHOLE;
use super::skip::Skip;
use super::survey;
use super::windows;
use crate::monitor::Amount;
use crate::util::parallel;

/// The most files in a chunk.
pub(super) const FILES: usize = 32 << 10;

/// The inputs of the first stage.
#[derive(Clone, Copy)]
pub(super) struct Stage<'a, 'r> {
    pub(super) run: &'a Run<'r>,
    pub(super) candidates: &'a Candidates,
    pub(super) cache: &'a Cache,
}

/// Some classes with examined members.
pub(super) struct Chunk<'a> {
    classes: &'a [Class],
    members: Vec<Member>,
}

impl<'a> Stage<'a, '_> {
    /// Finds out where the files of these classes lie, and reads samples of files in different places.
    pub(super) fn look(&self, classes: &'a [Class]) -> Chunk<'a> {
        let mut members = Vec::with_capacity(classes.iter().map(Class::len).sum());
        for class in classes {
            members.extend(self.candidates.files(class).iter().map(|file| self.cache.member(self.run, *file)));
        }
        self.place(&mut members);
        self.sample(classes, &mut members);
        Chunk { classes, members }
    }

    /// Shares equal files in a chunk.
    pub(super) fn share(&self, chunk: Chunk<'_>) {
        let Chunk { classes, mut members } = chunk;
        let mut groups = Vec::new();
        for class in split(classes, &mut members) {
            self.count_shared(class);
            groups.extend(self.groups(class));
        }
        self.share_groups(groups, None);
        self.keep(&members);
    }

    /// Shares equal files of a class that are already counted. `source`: the other files take its extents.
    pub(super) fn share_members(&self, members: &mut [Member], source: Option<FileId>) {
        let groups = self.groups(members);
        self.share_groups(groups, source);
        self.keep(members);
    }

    /// Keeps the facts now known about these files.
    pub(super) fn keep(&self, members: &[Member]) {
        if !self.run.dry_run {
            members.iter().for_each(|member| self.cache.keep(self.run, member));
        }
    }

    fn share_groups(&self, mut groups: Vec<Vec<&mut Member>>, source: Option<FileId>) {
        groups.sort_by_key(|group| (u64::MAX - group_saving(self.run, group), group.first().map(|m| m.facts.first)));
        parallel::each(self.run.threads.unwrap_or(parallel::SHARERS), groups, |group| {
            let before = Amount { files: group.len() as u64, bytes: unreported_bytes(self.run, &group) };
            group::share_equal(self.run, group, source);
            self.run.monitor.advance(before);
        });
    }

    /// Finds out where files lie that the cache does not know, in the order of their inodes.
    pub(super) fn place(&self, members: &mut [Member]) {
        let mut unknown: Vec<_> = members.iter_mut().filter(|member| member.facts.layout == 0).collect();
        unknown.sort_unstable_by_key(|member| {
            let record = self.run.catalogue.record(member.file);
            (record.subvolume, record.ino)
        });
        parallel::each(self.run.threads.unwrap_or(parallel::READERS), unknown, |member| {
            if self.run.is_over() { member.out = true } else { survey::place(self.run, member) }
        });
    }

    /// Reads samples of one file in each place, in the order of the places on the disk.
    fn sample(&self, classes: &[Class], members: &mut [Member]) {
        let mut wanted = Vec::new();
        for class in split(classes, members) {
            class.sort_unstable_by_key(|member| (member.out, member.facts.layout, member.file));
            let left = class.iter().take_while(|member| !member.out).count();
            let class = &mut class[..left];
            if class.chunk_by(|a, b| a.facts.layout == b.facts.layout).count() < 2 {
                continue;
            }
            for same in class.chunk_by_mut(|a, b| a.facts.layout == b.facts.layout) {
                match same.iter().find_map(|member| member.facts.sample) {
                    Some(sample) => same.iter_mut().for_each(|member| member.facts.sample = Some(sample)),
                    None => wanted.push(same),
                }
            }
        }
        self.read_samples(wanted);
    }

    /// Reads the samples of one file of each list, in the order of the places on the disk. All of its files lie in the
    /// same place.
    pub(super) fn read_samples(&self, mut wanted: Vec<&mut [Member]>) {
        wanted.sort_unstable_by_key(|same| same.first().map(|member| member.facts.first));
        parallel::each(self.run.threads.unwrap_or(parallel::READERS), wanted, |same| {
            let sampled = same.iter_mut().find_map(|member| {
                if self.run.is_over() {
                    return None;
                }
                survey::samples(self.run, member);
                member.facts.sample
            });
            same.iter_mut().for_each(|member| member.facts.sample = sampled);
        });
    }

    /// Counts the files that already share all their data; one file in each place represents the others.
    fn count_shared(&self, class: &mut [Member]) {
        for same in class.chunk_by(|a, b| a.facts.layout == b.facts.layout && !a.out && !b.out) {
            let again = same.get(1..).unwrap_or_default();
            // A file without data on the disk shares none.
            if same.first().is_some_and(|member| member.facts.extents > 0) {
                let bytes: u64 = again.iter().map(|member| self.run.catalogue.size(member.file)).sum();
                add(&self.run.counters.already_shared, bytes);
            }
            if let (Some(first), false) = (same.first(), again.is_empty()) {
                self.run.set_standing(first.file);
            }
            again.iter().for_each(|member| self.run.settle(member.file));
        }
    }

    /// The groups of a class: equal samples, and all or none written in place.
    fn groups<'m>(&self, class: &'m mut [Member]) -> Vec<Vec<&'m mut Member>> {
        class
            .sort_unstable_by_key(|member| (member.facts.sample, member.facts.nocow, member.facts.layout, member.file));
        let mut groups = Vec::new();
        let (mut files, mut bytes) = (0, 0);
        for same in class.chunk_by_mut(|a, b| a.facts.sample == b.facts.sample) {
            let is_candidate = same.iter().any(|member| member.facts.sample.is_some() && !member.out);
            let several = same.chunk_by(|a, b| a.facts.layout == b.facts.layout).count() > 1;
            if !is_candidate || !several {
                files += same.len() as u64;
                bytes += same.iter().map(|member| self.run.catalogue.size(member.file)).sum::<u64>();
                continue;
            }
            let mixed = same.iter().any(|member| member.facts.nocow) && same.iter().any(|member| !member.facts.nocow);
            for alike in same.chunk_by_mut(|a, b| a.facts.nocow == b.facts.nocow) {
                if mixed && alike.iter().any(|member| member.facts.nocow) {
                    alike.iter().for_each(|member| self.run.record_skip(member.file, Skip::Nocow));
                }
                groups.push(alike.iter_mut().collect());
            }
        }
        self.run.monitor.advance(Amount { files, bytes });
        groups
    }
}

/// The members of each class.
fn split<'m>(classes: &[Class], members: &'m mut [Member]) -> Vec<&'m mut [Member]> {
    let mut rest = members;
    let mut parts = Vec::with_capacity(classes.len());
    for class in classes {
        let (part, behind) = rest.split_at_mut(class.len().min(rest.len()));
        parts.push(part);
        rest = behind;
    }
    parts
}

fn group_saving(run: &Run<'_>, group: &[&mut Member]) -> u64 {
    let size = group.first().map_or(0, |member| run.catalogue.size(member.file));
    // Small files are sorted by their place instead.
    if size > WHOLE { size.saturating_mul(group.len() as u64 - 1) } else { 0 }
}

/// The bytes of a group without window-by-window progress reports.
fn unreported_bytes(run: &Run<'_>, group: &[&mut Member]) -> u64 {
    let size = group.first().map_or(0, |member| run.catalogue.size(member.file));
    // The windows of the destinations are reported one by one, and those of the source are not.
    if windows::are_reported(size) { size } else { size * group.len() as u64 }
}
