//! Runs on Btrfs, where an extent is free when nobody holds any part of it: gathered for a file, decided extent by extent,
//! then shared.

use super::context::Context;
use super::plan::{Decision, Outside, Weighed, Why, decide};
use super::rewrite;
use super::run::{Run, Source};
use super::victims::{Found, Reference, Victim, gather};
use crate::dedupe::run::add;
use rustix::io::Result;
use std::collections::HashSet;

/// Shares these runs of a file as far as that frees space.
pub(super) fn apply(file: u32, runs: &[Run], context: &mut Context<'_>) -> Result<()> {
    let gathered = gather(file, runs, context)?;
    let weighed: Vec<Weighed> =
        gathered.iter().map(|(victim, outside)| victim.weigh(*outside, context.block)).collect();
    let mut decisions = decide(&weighed);
    if !context.run.dry_run && decisions.contains(&Decision::Rewrite) && context.scratch.check(file).is_err() {
        let rewrite = decisions.iter_mut().filter(|decision| **decision == Decision::Rewrite);
        rewrite.for_each(|decision| *decision = Decision::Leave(Why::NoPlace));
    }
    let mut chosen = Vec::new();
    for (number, ((victim, _), decision)) in gathered.iter().zip(&decisions).enumerate() {
        match decision {
            Decision::Leave(why) => {
                context.leave(*why, victim.found_bytes());
                // Compressed bytes have no address of their own.
                let held = victim.found_bytes().min(victim.disk);
                context.run.account.pin(victim.extent..victim.extent + held);
            }
            Decision::Cover | Decision::Rewrite => chosen.push(number),
        }
    }
    if context.run.dry_run {
        let victims: Vec<_> = chosen.iter().map(|&number| (number, &gathered[number].0)).collect();
        let written = rewrite::expected(&victims, context.block);
        for (_, victim) in &victims {
            victim.found.iter().for_each(|found| context.count_shared(found.source, file, found.length));
            context.run.account.add(victim.disk, 0);
        }
        add(&context.run.counters.rewritten, written);
        context.run.account.add(0, written);
        return Ok(());
    }
    release(file, &gathered, &chosen, context)
}

/// Lets go of the chosen extents: first what was found in others, then what is left, then what was found within them.
fn release(file: u32, gathered: &[(Victim, Outside)], chosen: &[usize], context: &mut Context<'_>) -> Result<()> {
    let going: HashSet<u64> = chosen.iter().map(|&number| gathered[number].0.extent).collect();
    let is_inner = |found: &Found| found.lies_in.is_some_and(|extent| going.contains(&extent));
    let mut failed = HashSet::new();
    let mut alone = HashSet::new();
    let outer = |found: &Found| !is_inner(found);
    for &number in chosen {
        let (victim, outside) = &gathered[number];
        let (shared, is_alone) = share_all(file, victim, &outer, context);
        if !shared {
            failed.insert(number);
        }
        if is_alone || *outside == Outside::Nothing {
            alone.insert(number);
        }
    }
    let left: Vec<_> =
        chosen.iter().filter(|number| !failed.contains(number)).map(|&number| (number, &gathered[number].0)).collect();
    let (written, not_moved) = rewrite::rewrite(&left, context);
    failed.extend(not_moved);
    add(&context.run.counters.rewritten, written);
    for &number in chosen {
        if !failed.contains(&number) && !share_all(file, &gathered[number].0, &is_inner, context).0 {
            failed.insert(number);
        }
    }
    let mut freed = 0;
    for &number in chosen {
        let victim = &gathered[number].0;
        if failed.contains(&number) {
            continue;
        }
        if alone.contains(&number) {
            freed += victim.disk;
        } else {
            context.run.account.pin(victim.extent..victim.extent + victim.disk);
        }
    }
    context.run.account.add(freed, written);
    Ok(())
}

/// Shares what was found of an extent, for all its references: those of the file itself last. Whether all of it could be,
/// and whether the kernel called the extent unshared when only one reference was left.
fn share_all(file: u32, victim: &Victim, which: &dyn Fn(&Found) -> bool, context: &mut Context<'_>) -> (bool, bool) {
    // What was found is disjoint in the extent: each reference finds its own by its offset.
    let mut found: Vec<_> = victim.found.iter().filter(|found| which(found)).collect();
    found.sort_by_key(|found| found.offset);
    let of = |reference: &Reference| {
        let first = found.partition_point(|found| found.offset + found.length <= reference.offset);
        let end = reference.offset + reference.length;
        found[first..].iter().take_while(move |found| found.offset < end)
    };
    let own = victim.references.iter().filter(|reference| reference.file == file);
    let others = victim.references.iter().filter(|reference| reference.file != file);
    let order: Vec<_> = others.chain(own).filter(|reference| of(reference).next().is_some()).collect();
    let (mut all, mut is_alone) = (true, false);
    for (number, reference) in order.iter().enumerate() {
        let mut found = of(reference).peekable();
        while let Some(now) = found.next() {
            let Some((start, length)) = reference.within(now.offset, now.offset + now.length) else { continue };
            let source = now.source.advanced(reference.offset.max(now.offset) - now.offset);
            if source == (Source::File { file: reference.file, offset: start }) {
                continue;
            }
            if number + 1 == order.len() && found.peek().is_none() {
                let pieces = context.files.pieces(reference.file, start, start + length, usize::MAX, false);
                is_alone = pieces.is_ok_and(|pieces| pieces.iter().all(|piece| !piece.shared));
            }
            let shared = context.share(source, reference.file, start, length);
            all &= shared == length;
        }
    }
    (all, is_alone)
}
