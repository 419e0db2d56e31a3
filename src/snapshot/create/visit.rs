//! Walks the sources, and merges what the walk finds with the last manifest.

use super::context::{Context, Own};
use super::decide;
use super::merge::{Merge, Merged, Unseen};
use super::narrowing::Narrowing;
use super::options::{Hash, Options};
use super::previous::Previous;
use super::refuse;
use super::removal::Removal;
use super::retained::{Retained, Sums};
use super::scope::Scopes;
use super::staged::Staged;
use super::stats::Stats;
use super::timestamp::Timestamp;
use super::unsettled::Unsettled;
use super::visitor::SnapshotVisitor;
use super::watch::{LastRun, Watch};
use crate::error::{Error, Result};
use crate::monitor::{Amount, Monitor};
use crate::snapshot::manifest::Writer;
use crate::snapshot::recording_monitor::Noting;
use crate::snapshot::repository::Seen;
use crate::tree::exclude::Filter;
use crate::tree::walk::{self, Sources};

/// What a walk begins with.
#[derive(Default)]
pub(super) struct Base<'a> {
    /// The repository's own directory.
    pub(super) own: Option<Own>,
    /// The last snapshot.
    pub(super) previous: Option<&'a Previous>,
    /// What the run of the last snapshot saw, if the new tree begins with that snapshot.
    pub(super) seen: Option<Seen>,
    /// Whether to note what this run sees.
    pub(super) is_noted: bool,
    /// The UUIDs of the frozen copies of subvolumes that it reads.
    pub(super) frozen: Vec<[u8; 16]>,
}

/// Walks the sources. With a staging area and a writer it takes the snapshot, and returns what it saw of the sources.
/// Without them it only plans the snapshot.
pub(super) fn visit(
    sources: &Sources,
    base: Base<'_>,
    staged: Option<((Staged, Writer), Timestamp)>,
    options: &Options,
    noting: &Noting<'_>,
) -> Result<(Stats, Option<Seen>)> {
    let monitor: &dyn Monitor = noting;
    let Base { own, previous, seen, is_noted, frozen } = base;
    let (staged, timestamp) = staged.unzip();
    let (staged, writer) = staged.unzip();
    let expected = previous.map(|previous| {
        let totals = previous.reader.totals();
        Amount { files: totals.entries(), bytes: totals.bytes }
    });
    let plan = options.dry_run.then_some(monitor);
    let removal = match staged.as_ref().filter(|staged| staged.based) {
        Some(staged) => {
            let failed = |cause| Error::failed("open the staging area").because(cause);
            Some(Removal::new(staged.tree.try_clone().map_err(failed)?, monitor))
        }
        None => None,
    };
    let last = previous.map_or_else(LastRun::default, |previous| LastRun {
        entries: previous.reader.totals().entries(),
        seen: seen.as_ref(),
        most: decide::most(previous),
    });
    let watch = is_noted.then(|| Watch::begin(sources, frozen, &last, options.threads_for(false), monitor));
    let narrowing = previous
        .zip(watch.as_ref())
        .and_then(|(previous, watch)| decide::decide(previous, seen, (watch, sources), options, monitor));
    let unseen = unseen(narrowing.as_ref(), watch.as_ref(), previous, monitor);
    let unsettled = is_noted.then(Unsettled::default);
    let block_size = staged.as_ref().map_or(1, |staged| staged.filesystem.block_size);
    let old = previous.map(|previous| previous.reader.items());
    let mut merge = Merge::new(writer, (old, unseen), unsettled, plan, removal, block_size, noting);
    let filter = Filter::new(&options.excludes, sources);
    let begun = timestamp.map(|timestamp| timestamp.begun);
    let context = Context::new(previous, staged, own, (filter, watch, narrowing), begun, options, monitor);
    let visitor = SnapshotVisitor::new(context);
    monitor.phase(if options.dry_run { "comparing" } else { "cloning" }, expected);
    let reads_content = previous.is_none() && options.hash == Hash::New && !options.dry_run;
    let number = |dev| match (visitor.narrowing(), visitor.watch()) {
        (Some(_), Some(watch)) => watch.number(dev),
        _ => dev,
    };
    let mut walk = || {
        walk::walk(sources, &visitor, options.threads_for(reads_content), |output| {
            // After a failed sync no snapshot is possible.
            visitor.staged().map_or(Ok(()), Staged::check_synced)?;
            merge.push(output, number)
        })
    };
    match visitor.staged() {
        Some(staged) => {
            let walked = staged.writeback.during(1, || staged.sync(), walk);
            // This error replaces the error of an interrupted walk, which would keep its files for the next run.
            staged.check_synced()?;
            walked?;
        }
        None => walk()?,
    }
    visitor.report_unmatched();
    let origins = visitor.origins();
    let shortened = merge.shortened();
    let mut stats = visitor.stats();
    if stats.errors > 0 {
        refuse::failed(sources)?;
    }
    if visitor.is_torn() && visitor.narrowing().is_none() {
        refuse::emptied(sources, &stats)?;
    }
    for path in shortened {
        monitor.problem(
            &Error::failed("keep the extended attributes of")
                .at(path)
                .hint("they are too large for a manifest")
                .keeping_entry(),
        );
        stats.errors += 1;
    }
    let Merged { writer, retained, unsettled } = merge.finish(&mut stats)?;
    if let (Some(retained), Some(staged)) = (&retained, visitor.staged()) {
        monitor.advance(Amount { files: retained.entries(), bytes: 0 });
        staged.blocks.carry_others(|hash| retained.has_met(hash));
    }
    if let Some(mut writer) = writer {
        writer.set_origins(origins);
        writer.finish(&stats.totals())?;
    }
    let (watch, narrowing) = visitor.into_watch();
    let watch = watch.filter(|_| stats.errors == 0);
    let seen = watch.and_then(Watch::end).zip(unsettled.and_then(Unsettled::into_paths));
    let seen = seen.map(|((tops, swept), unsettled)| Seen {
        conditions: decide::conditions(options),
        narrow: narrowing.filter(|narrowing| !narrowing.is_check).map_or(0, |old| old.seen.narrow.saturating_add(1)),
        hole_bytes: stats.hole_bytes,
        inline_bytes: stats.inline_bytes,
        tops,
        swept,
        unsettled,
        ..Seen::default()
    });
    Ok((stats, seen))
}

/// How the merge handles records of what the walk does not look at.
fn unseen<'a>(
    narrowing: Option<&Narrowing>,
    watch: Option<&Watch>,
    previous: Option<&Previous>,
    monitor: &'a dyn Monitor,
) -> Unseen<'a> {
    match (narrowing, watch, previous) {
        (Some(narrowing), Some(watch), _) if narrowing.is_check => {
            Unseen::Checked(Scopes::default(), watch.at(), monitor)
        }
        (Some(Narrowing { seen, .. }), _, Some(previous)) => {
            let (totals, hole_bytes, inline_bytes) = (*previous.reader.totals(), seen.hole_bytes, seen.inline_bytes);
            Unseen::Kept(Scopes::default(), Retained::of(Sums { totals, hole_bytes, inline_bytes }))
        }
        _ => Unseen::None,
    }
}
