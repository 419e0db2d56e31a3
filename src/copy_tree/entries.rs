//! The entries of one directory, one batch at a time: examines them, decides on them, and copies them.
//!
//! Entries are processed in the order of their inodes, not of their names, because that is usually their order on the
//! disk. Small files are copied in groups, larger files side by side, each on its own thread. Entries that have several
//! names or are not files are copied one by one.
//!
//! If the directory has a temporary name, it gets its own name after its small files, or after the next sync if it has
//! nothing else (`staging`).
//!
//! A restore collects entries across directories instead (`batch`), because the manifest already has their order.

use super::context::LARGE;
use super::pair::{Pair, Seen};
use super::staging::{self, Published};
use super::stats::Stats;
use super::{alone, group, links, look};
use crate::error::Result;
use crate::fs::open_files;
use crate::monitor::Change;
use crate::tree::walk::Name;
use crate::tree::writer::{Attempt, Decision};
use crate::util::parallel;
use rustix::fs::FileType;
use rustix::io::Errno;

/// A line of a dry run: an entry's name in the destination.
pub(super) type Line = (Change, Vec<u8>);

/// Copies a batch of entries. In a dry run returns the lines of the plan, in the order of the names.
pub(super) fn batch(pair: &Pair<'_>, names: &mut dyn Iterator<Item = Name<'_>>, part: &mut Stats) -> Result<Vec<Line>> {
    if !pair.place().is_staged() {
        return direct(pair, names, part);
    }
    let names: Vec<_> = names.collect();
    let mut copied = Stats::default();
    let opens = names.len() <= pair.context.most_opened && !group::may_use_ring(pair);
    let seen = examine_by(pair, &mut names.iter().copied(), &mut copied, |name| match opens && name.is_file {
        true => look::open(pair, name.bytes),
        false => look::look(pair, name.bytes, false),
    })?;
    let Sorted { small, large, rest } = Sorted::new(pair, seen);
    let (mut staged, mut later) = if staging::pays_for(&small) { (small, Vec::new()) } else { (Vec::new(), small) };
    if later.is_empty() && large.is_empty() && rest.is_empty() {
        pair.place().wait_if_written();
    }
    let ended = copy_small(pair, &mut staged, &mut copied);
    // Complete files get their place even if the run ends.
    match staging::publish(pair) {
        Ok(Published::AsMade) => {
            part.add(&copied);
            ended?;
            copy_small(pair, &mut later, part)?;
            copy_rest(pair, large, &rest, part)?;
            Ok(Vec::new())
        }
        Ok(Published::Elsewhere) => {
            ended?;
            let seen = examine(pair, &mut names.into_iter(), part)?;
            // No entry had one of these names when the directory was examined, so none is replaced.
            let is_taken = |seen: &Seen<'_>| matches!(seen.decision, Decision::Replace(_));
            let (taken, free): (Vec<_>, Vec<_>) = seen.into_iter().partition(is_taken);
            for seen in taken {
                pair.skip(pair.wrong(seen.name, "put in place", Errno::EXIST), part)?;
            }
            copy_all(pair, free, part)?;
            Ok(Vec::new())
        }
        Err(failure) => {
            ended?;
            pair.skip(failure, part)?;
            Ok(Vec::new())
        }
    }
}

/// Copies a batch of entries of a directory that has its own name.
fn direct(pair: &Pair<'_>, names: &mut dyn Iterator<Item = Name<'_>>, part: &mut Stats) -> Result<Vec<Line>> {
    let seen = examine(pair, names, part)?;
    let mut lines = Vec::new();
    if pair.context.options.dry_run {
        let planned = seen.iter().filter_map(|seen| Some((seen.decision.change()?, seen.name)));
        lines.extend(planned.map(|(change, name)| (change, pair.target_name(name).to_vec())));
    }
    copy_all(pair, seen, part)?;
    Ok(lines)
}

fn copy_all(pair: &Pair<'_>, seen: Vec<Seen<'_>>, part: &mut Stats) -> Result<()> {
    let Sorted { mut small, large, rest } = Sorted::new(pair, seen);
    copy_small(pair, &mut small, part)?;
    copy_rest(pair, large, &rest, part)
}

/// Examines the entries, in the order of their names.
fn examine<'n>(pair: &Pair<'_>, names: &mut dyn Iterator<Item = Name<'n>>, part: &mut Stats) -> Result<Vec<Seen<'n>>> {
    examine_by(pair, names, part, |name| look::look(pair, name.bytes, !pair.place().fresh))
}

fn examine_by<'n>(
    pair: &Pair<'_>,
    names: &mut dyn Iterator<Item = Name<'n>>,
    part: &mut Stats,
    look: impl Fn(Name<'n>) -> Attempt<Option<Seen<'n>>>,
) -> Result<Vec<Seen<'n>>> {
    let mut seen = Vec::new();
    for name in names {
        match look(name) {
            Ok(Some(entry)) => seen.push(entry),
            Ok(None) => {}
            Err(failure) => pair.skip(failure, part)?,
        }
    }
    Ok(seen)
}

/// The entries of a batch by the way in which they are copied, each list in the order of the inodes.
struct Sorted<'n> {
    small: Vec<Seen<'n>>,
    large: Vec<Seen<'n>>,
    rest: Vec<Seen<'n>>,
}

impl<'n> Sorted<'n> {
    fn new(pair: &Pair<'_>, mut seen: Vec<Seen<'n>>) -> Sorted<'n> {
        seen.sort_unstable_by_key(|seen| seen.status.ino);
        let is_new = |seen: &Seen<'_>| {
            let is_made = matches!(seen.decision, Decision::Make | Decision::Replace(_));
            is_made && seen.is_file() && seen.status.nlink == 1 && !pair.context.options.dry_run
        };
        let (files, rest): (Vec<_>, Vec<_>) = seen.into_iter().partition(is_new);
        let (large, small): (Vec<_>, Vec<_>) = files.into_iter().partition(|seen| seen.status.size >= LARGE);
        Sorted { small, large, rest }
    }
}

fn copy_small(pair: &Pair<'_>, small: &mut [Seen<'_>], part: &mut Stats) -> Result<()> {
    for files in small.chunks_mut(open_files::part(64, 1..=pair.context.group)) {
        pair.context.check()?;
        group::copy(pair, files, part)?;
    }
    Ok(())
}

fn copy_rest(pair: &Pair<'_>, large: Vec<Seen<'_>>, rest: &[Seen<'_>], part: &mut Stats) -> Result<()> {
    let context = pair.context;
    let results = parallel::each(context.side_by_side(), large, |seen| copy_large(pair, &seen));
    // All results are counted, even if one ended the run.
    let mut ended = Ok(());
    for result in results {
        match result {
            Ok(copied) => part.add(&copied),
            Err(error) => ended = ended.and(Err(error)),
        }
    }
    ended?;
    for seen in rest {
        context.check()?;
        single(pair, seen, part)?;
    }
    Ok(())
}

/// Copies a large file once the semaphore permits it.
fn copy_large(pair: &Pair<'_>, seen: &Seen<'_>) -> Result<Stats> {
    let context = pair.context;
    let mut part = Stats::default();
    context.check()?;
    if let Err(failure) = context.large.with(|| alone::file(pair, seen, None, &mut part)) {
        pair.skip(failure, &mut part)?;
    }
    context.waiting.made(part.files, part.copied_bytes);
    Ok(part)
}

/// Copies an entry that is not copied in a group.
fn single(pair: &Pair<'_>, seen: &Seen<'_>, part: &mut Stats) -> Result<()> {
    let before = (part.files, part.copied_bytes);
    let copied = match seen.decision {
        Decision::Blocked => Err(alone::blocked(pair, seen)),
        _ if seen.status.nlink > 1 && seen.status.file_type() != FileType::Directory => links::copy(pair, seen, part),
        _ => alone::copy(pair, seen, part).map(|_| ()),
    };
    pair.context.waiting.made(part.files - before.0, part.copied_bytes - before.1);
    copied.or_else(|failure| pair.skip(failure, part))
}
