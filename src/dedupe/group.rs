//! A group: files of one size with equal samples. One file is the source. The kernel compares it with all files that
//! lie elsewhere, and shares the equal ones.
//!
//! Files that turn out to differ are sorted by a hash of all their data, so that many near-equal files are read twice
//! instead of each against each. Two files that were compared once are not compared again while both are unchanged.

use super::catalogue::FileId;
use super::facts::Member;
use super::run::Run;
use super::share;
use super::skip::Skip;
use super::survey;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroU64;

/// Shares the equal files of a group. All members have the same size and filesystem, and all or none are written in
/// place. `source`: a member that should be the source.
pub(super) fn share_equal(run: &Run<'_>, mut members: Vec<&mut Member>, source: Option<FileId>) {
    members.retain(|member| !member.out);
    members.sort_by_key(|member| (member.facts.layout, member.file));
    let Some(best) = best_layout(run, &members, source) else { return };
    if layouts(&members) < 2 || run.is_over() {
        return;
    }
    let (mut sources, others): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| member.facts.layout == best);
    let known = Hashes::of(&sources);
    let (mut differing, mut open) = (Vec::new(), Vec::new());
    let mut others = others.into_iter().peekable();
    while let Some(first) = others.next() {
        // Facts known about one file hold for all files in the same place.
        let mut same = vec![first];
        let layout = same[0].facts.layout;
        while let Some(next) = others.next_if(|next| next.facts.layout == layout) {
            same.push(next);
        }
        match same.iter().find_map(|member| known.verdict(member)) {
            Some(true) => {}
            Some(false) => differing.append(&mut same),
            None => open.append(&mut same),
        }
    }
    if !open.is_empty() {
        let found = sources.iter_mut().find_map(|source| survey::open(run, source).map(|opened| (source, opened)));
        let Some((source, opened)) = found else {
            // The file there cannot be read; the others may still share with each other.
            open.append(&mut differing);
            return share_equal(run, open, None);
        };
        differing.append(&mut share::share(run, source, &opened, open));
    }
    differing.retain(|member| !member.out);
    differing.sort_by_key(|member| (member.facts.layout, member.file));
    match layouts(&differing) {
        0 => {}
        1 => differing.iter().for_each(|member| run.record_skip(member.file, Skip::Differs)),
        _ => sort_out(run, &mut sources, differing),
    }
}

/// Sorts files that look equal but differ from the source: files with the same hash belong together.
fn sort_out(run: &Run<'_>, sources: &mut [&mut Member], mut members: Vec<&mut Member>) {
    if run.is_over() {
        return;
    }
    // The source's hash shows the next run which files differ from it.
    hash_one(run, sources);
    members.chunk_by_mut(|a, b| a.facts.layout == b.facts.layout).for_each(|same| hash_one(run, same));
    members.retain(|member| !member.out && member.facts.full.is_some());
    members.sort_by_key(|member| member.facts.full);
    let mut rest = members.into_iter().peekable();
    while let Some(first) = rest.next() {
        let full = first.facts.full;
        let mut equal = vec![first];
        while let Some(next) = rest.next_if(|next| next.facts.full == full) {
            equal.push(next);
        }
        if layouts_of(&equal) > 1 {
            share_equal(run, equal, None);
        } else {
            equal.iter().for_each(|member| run.record_skip(member.file, Skip::Differs));
        }
    }
}

/// Hashes one of the files in the same place, unless the hash of any of them is known. It holds for all of them.
fn hash_one(run: &Run<'_>, same: &mut [&mut Member]) {
    let known = same.iter().find_map(|member| member.facts.full);
    let full = known.or_else(|| same.iter_mut().find_map(|member| survey::hash(run, member)));
    same.iter_mut().for_each(|member| member.facts.full = full);
}

/// The hashes and the results of earlier comparisons for the files that lie where the source does.
struct Hashes {
    sources: HashSet<NonZeroU64>,
    compared: HashMap<NonZeroU64, bool>,
    full: Option<NonZeroU64>,
}

impl Hashes {
    fn of(sources: &[&mut Member]) -> Hashes {
        let compared =
            sources.iter().filter_map(|source| source.facts.compared.map(|with| (with, source.facts.was_equal)));
        Hashes {
            sources: sources.iter().map(|source| source.identity).collect(),
            compared: compared.collect(),
            full: sources.iter().find_map(|source| source.facts.full),
        }
    }

    /// Whether a member is known to be equal (`true`) or to differ (`false`), from a comparison by the kernel or from
    /// the hashes.
    fn verdict(&self, member: &Member) -> Option<bool> {
        let with_source = member.facts.compared.filter(|with| self.sources.contains(with));
        let of_source = || self.compared.get(&member.identity).copied();
        let differs = || self.full.zip(member.facts.full).filter(|(one, other)| one != other).map(|_| false);
        with_source.map(|_| member.facts.was_equal).or_else(of_source).or_else(differs)
    }
}

/// The layout to share with the others: that of `source`, if it is a member. First choice otherwise: one held by a
/// file that cannot be changed, by a read-only snapshot, or by something outside, since those extents stay in any case.
/// Then: a compressed one, then one with the fewest extents, then one held by the most files.
fn best_layout(run: &Run<'_>, members: &[&mut Member], source: Option<FileId>) -> Option<u64> {
    let buckets = members.chunk_by(|a, b| a.facts.layout == b.facts.layout);
    let merit = |bucket: &&[&mut Member]| {
        let first = bucket.first().map(|member| member.facts).unwrap_or_default();
        let stays = bucket.iter().any(|member| member.facts.fixed || run.catalogue.subvolume(member.file).read_only);
        let pinned = first.shared && bucket.len() == 1;
        let oldest = bucket.iter().map(|member| member.file).min();
        let chosen = source.is_some_and(|source| bucket.iter().any(|member| member.file == source));
        (chosen, stays, pinned, first.encoded, Reverse(first.extents), bucket.len(), Reverse(oldest))
    };
    buckets.max_by_key(merit).and_then(|bucket| bucket.first()).map(|member| member.facts.layout)
}

/// The number of different places of the members, which are sorted by place.
fn layouts(members: &[&mut Member]) -> usize {
    members.chunk_by(|a, b| a.facts.layout == b.facts.layout).count()
}

/// The same for members in any order.
fn layouts_of(members: &[&mut Member]) -> usize {
    let mut layouts: Vec<_> = members.iter().map(|member| member.facts.layout).collect();
    layouts.sort_unstable();
    layouts.dedup();
    layouts.len()
}
