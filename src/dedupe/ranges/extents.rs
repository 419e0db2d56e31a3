//! Runs on Btrfs, which frees an extent only when nobody holds any part of it. The runs of a file are gathered, decided
//! extent by extent, and then shared.

use super::context::Context;
use super::plan::{Decision, Outside, Weighed, decide};
use super::rewrite;
use super::run::{Run, Source};
use super::victims::{ByOffset, Found, Victim, gather};
use crate::dedupe::run::add;
use crate::extents::bound::Bound;
use crate::monitor::Pinned;
use rustix::io::Result;
use std::collections::{BTreeMap, HashSet};

/// Shares these runs of a file as far as this frees space.
///
/// If an extent of the file is not worth freeing, the extents of the equal data may be: a small file can equal a part
/// of a large extent. Then the other file is changed.
pub(super) fn apply(file: u32, runs: &[Run], context: &mut Context<'_>) -> Result<()> {
    let mut turned: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
    for (victim, why) in settle(file, runs, context)? {
        let mut staying = 0;
        for found in &victim.found {
            let run = Run { source: found.source, start: found.at, length: found.length };
            match run.turned(file) {
                Some((other, run)) if !context.files.is_refused(other) => turned.entry(other).or_default().push(run),
                _ => staying += found.length,
            }
        }
        leave(&victim, staying, why, context);
    }
    for (other, mut runs) in turned {
        runs.sort_by_key(|run| run.start);
        for (victim, why) in settle(other, &runs, context)? {
            leave(&victim, victim.found_bytes(), why, context);
        }
    }
    Ok(())
}

/// Counts equal bytes of an extent that stays.
fn leave(victim: &Victim, bytes: u64, why: Pinned, context: &mut Context<'_>) {
    if bytes == 0 {
        return;
    }
    context.leave(why, bytes);
    // Compressed bytes have no addresses of their own.
    context.account.pin(victim.extent, bytes.min(victim.disk));
}

/// Shares these runs of a file as far as this frees extents of it. Returns the extents that stay for another reason
/// than a holder outside, each with the reason.
fn settle(file: u32, runs: &[Run], context: &mut Context<'_>) -> Result<Vec<(Victim, Pinned)>> {
    let gathered = gather(file, runs, context)?;
    let weighed: Vec<Weighed> =
        gathered.iter().map(|(victim, outside)| victim.weigh(*outside, context.block)).collect();
    let mut decisions = decide(&weighed);
    if !context.run.dry_run && decisions.contains(&Decision::Rewrite) && context.scratch.check(file).is_err() {
        let rewrite = decisions.iter_mut().filter(|decision| **decision == Decision::Rewrite);
        rewrite.for_each(|decision| *decision = Decision::Leave(Pinned::NoPlace));
    }
    let mut chosen = Vec::new();
    for (number, ((victim, _), decision)) in gathered.iter().zip(&decisions).enumerate() {
        match decision {
            Decision::Leave(Pinned::Held) => leave(victim, victim.found_bytes(), Pinned::Held, context),
            Decision::Leave(_) => {}
            Decision::Cover | Decision::Rewrite => chosen.push(number),
        }
    }
    release(&gathered, &chosen, context)?;
    let left = gathered.into_iter().zip(decisions).filter_map(|((victim, _), decision)| match decision {
        Decision::Leave(why) if why != Pinned::Held => Some((victim, why)),
        _ => None,
    });
    Ok(left.collect())
}

/// Releases the chosen extents: first the ranges found in other extents, then the rest, then the ranges found within
/// the chosen extents.
fn release(gathered: &[(Victim, Outside)], chosen: &[usize], context: &mut Context<'_>) -> Result<()> {
    let space = context.account.space();
    let going: HashSet<_> = chosen.iter().filter_map(|&number| space.offset(gathered[number].0.extent)).collect();
    let is_inner = |found: &Found| found.lies_in.and_then(|at| space.offset(at)).is_some_and(|at| going.contains(&at));
    let all = |numbers: &mut dyn Iterator<Item = &usize>| numbers.map(|&n| (n, &gathered[n].0)).collect::<Vec<_>>();
    let mut gone = Gone::default();
    let known = chosen.iter().filter(|&&number| gathered[number].1 == Outside::Nothing);
    gone.alone.extend(known.copied());
    share_all(&all(&mut chosen.iter()), &|found| !is_inner(found), &mut gone, context);
    let left = all(&mut chosen.iter().filter(|number| !gone.failed.contains(number)));
    let (written, not_moved) = rewrite::rewrite(&left, context);
    gone.failed.extend(not_moved);
    add(&context.run.counters.rewritten, written);
    let left = all(&mut chosen.iter().filter(|number| !gone.failed.contains(number)));
    share_all(&left, &is_inner, &mut gone, context);
    context.account.spend(written);
    for (number, victim) in left {
        if gone.failed.contains(&number) {
            continue;
        }
        // The freed bytes are counted from what the files hold now, not from the requests to the kernel.
        if gone.alone.contains(&number) && !victim.is_held(context) {
            context.account.free(victim.extent, victim.disk);
        } else {
            context.account.pin(victim.extent, victim.disk);
        }
    }
    Ok(())
}

/// The outcome for extents, by their numbers.
#[derive(Default)]
struct Gone {
    /// Extents that could not be shared or moved completely.
    failed: HashSet<usize>,
    /// Extents that only the known references hold.
    alone: HashSet<usize>,
}

/// Shares the found ranges of extents, for all their references. If the kernel reports an extent as unshared when one
/// reference remains, that counts as proof that nothing else holds it.
///
/// A range that was found within an extent to release has its source further ahead in the same file. The source must
/// leave its extent before other references are moved to it, or they would hold that extent from then on. All ranges
/// are therefore handled in the order of the file that was read, across extents.
fn share_all(victims: &[(usize, &Victim)], which: &dyn Fn(&Found) -> bool, gone: &mut Gone, context: &mut Context<'_>) {
    let mut tasks = Vec::new();
    let mut left: Vec<usize> = Vec::with_capacity(victims.len());
    for (place, (_, victim)) in victims.iter().enumerate() {
        let before = tasks.len();
        tasks.extend(victim.found.iter().filter(|found| which(found)).map(|found| (found, place)));
        left.push(tasks.len() - before);
    }
    tasks.sort_by_key(|(found, _)| found.at);
    let references: Vec<_> = victims.iter().map(|(_, victim)| ByOffset::of(victim)).collect();
    for (found, place) in tasks {
        let number = victims[place].0;
        left[place] -= 1;
        let mut touching = references[place].touching(found.offset, found.offset + found.length).peekable();
        while let Some(reference) = touching.next() {
            let Some((start, length)) = reference.within(found.offset, found.offset + found.length) else { continue };
            let source = found.source.advanced(reference.offset.max(found.offset) - found.offset);
            if source == (Source::File { file: reference.file, offset: start }) {
                continue;
            }
            if left[place] == 0 && touching.peek().is_none() && !gone.alone.contains(&number) {
                let pieces = context.files.pieces(reference.file, start, start + length, usize::MAX, false);
                if context.run.dry_run {
                    // Nothing has changed, so the kernel still reports it as shared with the other references.
                    context.account.limit(Bound::AtMost);
                    gone.alone.insert(number);
                } else if pieces.is_ok_and(|pieces| pieces.iter().all(|piece| !piece.shared)) {
                    gone.alone.insert(number);
                }
            }
            if context.share(source, reference.file, start, length) < length {
                gone.failed.insert(number);
            }
        }
    }
}
