//! Equal ranges in files that differ as a whole. Each file is read once, and its blocks are looked up by hash in an
//! index of bounded memory. Matches are extended both ways and shared by the kernel, which compares them again. On
//! Btrfs, root reads the filesystem's checksums instead of the files (`form`, `sums`). A dry run takes the same steps
//! on the planned layouts (`overlay`).
//!
//! `scan` and `index` find runs. `layout` and `holders` know where data lies and who else holds it. `blocks` (XFS), or
//! `victims`, `plan`, `extents` and `rewrite` (Btrfs), free the space. `share` and `scratch` make the system calls.

mod blocks;
mod context;
mod extent_lists;
mod extents;
mod files;
mod form;
mod holders;
mod kept;
mod overlay;
mod plan;
mod rewrite;
mod run;
mod scan;
mod scratch;
mod share;
mod sums;
mod survey;
mod tally;
mod victims;

use self::context::{Context, Seen};
use self::extent_lists::ExtentLists;
use self::files::Files;
use self::holders::{Collection, Holders};
use self::kept::Kept;
use self::run::Source;
use self::scan::Scanner;
use self::scratch::Scratch;
use self::survey::Survey;
use super::account::Unit;
use super::catalogue::FileId;
use super::kept_blocks::borrowed::NOBODY;
use super::kept_blocks::part::{Id, Kind as Hashed};
use super::kept_blocks::store::Store;
use super::run::Run;
use crate::error::Error;
use crate::fs::fidedupe;
use crate::fs::filesystem::Kind;
use crate::fs::status::Time;
use crate::monitor::{Amount, Event, Pinned};
use rustix::io::Result;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsFd as _;

/// The smallest block of a filesystem that shares. No range can be shorter.
const SMALLEST_BLOCK: u64 = 512;

/// Checks the length of the shortest run that a user asks for.
///
/// # Errors
/// If it is shorter than the smallest block of any filesystem.
pub(crate) fn check_min_run(bytes: u64) -> std::result::Result<u64, String> {
    if bytes >= SMALLEST_BLOCK {
        return Ok(bytes);
    }
    Err(format!("it must be {SMALLEST_BLOCK} or more: only whole blocks of a filesystem can be shared"))
}

/// The files to compare block by block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Files of 1 MiB and more.
    #[default]
    Auto,
    /// All files that can hold a run.
    Always,
    /// None.
    Never,
}

/// How to look for ranges.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// In which files.
    pub mode: Mode,
    /// The shortest run, in bytes. It is rounded up to whole blocks of the filesystem.
    pub min_run: u64,
    /// The memory for the index and for the known shared places, in bytes.
    pub index_memory: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { mode: Mode::Auto, min_run: 64 << 10, index_memory: 256 << 20 }
    }
}

/// The smallest file that [`Mode::Auto`] reads.
const AUTO_SIZE: u64 = 1 << 20;
/// The fraction of the memory for the index; the rest is for shared places.
const INDEX_SHARE: (u64, u64) = (3, 4);
/// The number of bytes read between two checks whether to stop.
const STEP: u64 = 16 << 20;
/// The number of pieces of a file that are read at once.
const PIECES: usize = 4096;
/// On Btrfs, runs are decided after so many bytes or runs of a file.
const BATCH: (u64, usize) = (1 << 30, 1 << 15);

/// The size of the smallest files to read.
pub(crate) fn smallest(options: &Options) -> u64 {
    match options.mode {
        Mode::Auto => AUTO_SIZE.max(options.min_run),
        Mode::Always => options.min_run,
        Mode::Never => u64::MAX,
    }
}

/// Shares equal ranges among `files`, and with the files that share extents with them. Files that are too small are
/// skipped. The work is counted in the run's counters and the freed bytes are booked in its account. Returns whether
/// the stage finished, neither interrupted nor out of time.
///
/// Memory: `index_memory`, 24 bytes for each file that is large enough, and a few MiB.
pub(in crate::dedupe) fn share(run: &Run<'_>, files: &[FileId], options: &Options, earlier: &mut Earlier<'_>) -> bool {
    let mut groups: BTreeMap<(u16, bool), Vec<u32>> = BTreeMap::new();
    for &file in files.iter().filter(|&&file| run.catalogue.size(file) >= smallest(options)) {
        // Files that Btrfs writes in place share only with each other.
        let is_btrfs = run.catalogue.volume(file).kind == Kind::Btrfs;
        let nocow = is_btrfs && run.opener.open(file).is_ok_and(|opened| fidedupe::is_nocow(opened.as_fd()));
        groups.entry((run.catalogue.volume_number(file), nocow)).or_default().push(file.0);
    }
    let mut left = BTreeMap::new();
    for ((_, nocow), files) in groups {
        share_among(run, &files, nocow, options, earlier, &mut left);
    }
    for (why, bytes) in left {
        run.monitor.event(Event::NotShared { bytes, why });
    }
    !run.is_over()
}

/// The block indexes of earlier runs.
pub(in crate::dedupe) struct Earlier<'s> {
    /// Where they are kept, and where those of this run are added.
    pub(in crate::dedupe) store: &'s mut Store,
    /// Files that changed since this time may change again and keep their timestamps.
    pub(in crate::dedupe) begun: Time,
}

/// The same for files of one kind on one filesystem. `nocow`: Btrfs writes them in place.
fn share_among(
    run: &Run<'_>,
    files: &[u32],
    nocow: bool,
    options: &Options,
    earlier: &mut Earlier<'_>,
    left: &mut BTreeMap<Pinned, u64>,
) {
    let Some(&first) = files.first() else { return };
    let volume = run.catalogue.volume(FileId(first));
    let block = volume.block_size.max(SMALLEST_BLOCK);
    let index_memory = options.index_memory / INDEX_SHARE.1 * INDEX_SHARE.0;
    let other_memory = options.index_memory - index_memory;
    // Only whole blocks can be shared.
    let min_run = options.min_run.div_ceil(block).saturating_mul(block);
    let privileged = rustix::process::geteuid().is_root();
    let is_summed = privileged && volume.kind == Kind::Btrfs && !nocow;
    let mut any = files.iter().take_while(|_| is_summed).filter_map(|&file| run.opener.open(FileId(file)).ok());
    let format = any.next().and_then(|opened| sums::format(opened.as_fd(), block));
    // Checksums are read faster than a kept index.
    let keeps = earlier.store.is_used() && format.is_none();
    let lists_memory = if keeps { other_memory / 4 } else { 0 };
    let mut context = Context {
        run,
        account: run.account(FileId(first)),
        files: Files::new(run, privileged, format, options.index_memory / 4),
        lists: ExtentLists::default(),
        scratch: Scratch::new(run),
        holders: Holders::none(volume.space),
        seen: Seen::new(volume.space, (other_memory / 2 - lists_memory) / 64),
        block,
        min_run,
        left: std::mem::take(left),
        is_unsettled: false,
    };
    let mut kept = if keeps {
        let id = Id { kind: Hashed::Bytes, volume: volume.uuid, nocow, block, min_run };
        let number = run.catalogue.volume_number(FileId(first));
        Kept::begin(run, earlier.store, id, number, smallest(options), lists_memory)
    } else {
        Kept::none(run)
    };
    let shared = Collection::new(volume.space, other_memory / 2);
    let survey = survey::survey(files, shared, &mut context);
    if !kept.covers(&survey.files) {
        let blocks = survey.bytes.div_ceil(block);
        let index = kept.index(earlier.store, index_memory, blocks);
        if index.modulus() > 1 {
            let run_bytes = index.modulus() * block * 4;
            run.monitor.event(Event::IndexSampled { one_in: index.modulus(), run_bytes });
        }
        let mut scanner = Scanner::new(index, context.files.form(block, min_run, blocks), min_run);
        kept.show(&survey.sharing, &mut context);
        read_all(&survey, &mut scanner, &mut kept, &mut context);
        blocks::finish(&mut context);
        if let Err(error) = kept.keep(scanner.index(), earlier.begun, earlier.store) {
            run.monitor.event(Event::CacheFailed(&Error::io("keep the block index for the next run", "", error)));
        }
    }
    *left = context.left;
}

/// Reads the files, as far as they are not known, and shares the ranges found in them.
fn read_all(survey: &Survey, scanner: &mut Scanner, kept: &mut Kept<'_>, context: &mut Context<'_>) {
    let run = context.run;
    run.monitor.phase("comparing blocks", Some(Amount { files: survey.files.len() as u64, bytes: survey.bytes }));
    let mut order = survey.files.clone();
    // First the data that the index lacks: it is found in new files then, wherever it occurs alone.
    order.sort_by_key(|file| !kept.knows(*file));
    for file in order {
        if run.is_over() {
            break;
        }
        let ranges = kept.ranges(file, run.catalogue.size(FileId(file)));
        if !ranges.is_empty() {
            match look_through(file, &ranges, survey, scanner, kept, context) {
                Ok(()) if run.is_over() => {}
                Ok(()) => {
                    let is_read = context.files.is_read_as_seen(file);
                    kept.looked_at(file, is_read);
                }
                Err(errno) => {
                    kept.looked_at(file, false);
                    run.failed(FileId(file), "read the extents of", errno);
                }
            }
        }
        run.monitor.advance(Amount { files: 1, bytes: 0 });
    }
}

/// Reads these ranges of one file and shares the ranges found in them.
fn look_through(
    file: u32,
    ranges: &[Range<u64>],
    survey: &Survey,
    scanner: &mut Scanner,
    kept: &mut Kept<'_>,
    context: &mut Context<'_>,
) -> Result<()> {
    let Some(opened) = context.files.get(file) else { return Ok(()) };
    let (size, unit) = (opened.status().size, context.account.unit());
    scanner.begin(file, size);
    let mut runs = Vec::new();
    let mut since = 0;
    for (number, range) in ranges.iter().enumerate() {
        let mut at = range.start;
        while at < range.end && !context.run.is_over() {
            // Dirty pages are written back once, before the first map is read.
            let is_first = number == 0 && at == range.start;
            let pieces = context.files.pieces(file, at, range.end, PIECES, is_first)?;
            let Some(last) = pieces.last() else { break };
            at = last.end();
            for piece in &pieces {
                if piece.shared {
                    if context.seen.contains(piece) {
                        kept.borrow(file, &(piece.logical..piece.end()), NOBODY);
                        context.run.monitor.advance(Amount { files: 0, bytes: piece.length });
                        continue;
                    }
                    context.seen.add(piece);
                }
                let mut from = piece.logical;
                while from < piece.end() && !context.run.is_over() {
                    let to = piece.end().min(from + STEP);
                    runs.extend(scanner.enter(from..to));
                    while let Some(run) = scanner.next_run(&mut context.files) {
                        runs.push(run);
                        if unit == Unit::Blocks {
                            apply(file, &mut runs, survey, kept, context)?;
                        }
                    }
                    scanner.take_displaced().into_iter().for_each(|place| kept.displaced(place, file));
                    context.run.monitor.advance(Amount { files: 0, bytes: to - from });
                    since += to - from;
                    from = to;
                }
                if since >= BATCH.0 || runs.len() >= BATCH.1 {
                    runs.extend(scanner.flush());
                    apply(file, &mut runs, survey, kept, context)?;
                    since = 0;
                }
            }
        }
    }
    runs.extend(scanner.finish());
    scanner.take_displaced().into_iter().for_each(|place| kept.displaced(place, file));
    apply(file, &mut runs, survey, kept, context)
}

/// Shares the ranges that were found in a file.
fn apply(
    file: u32,
    runs: &mut Vec<run::Run>,
    survey: &Survey,
    kept: &mut Kept<'_>,
    context: &mut Context<'_>,
) -> Result<()> {
    let runs = std::mem::take(runs);
    let (mut own, mut turned) = (Vec::with_capacity(runs.len()), Vec::new());
    for &run in &runs {
        match run.turned(file) {
            Some((other, run)) if survey.prefers(file, other) => turned.push((other, run)),
            _ => own.push(run),
        }
    }
    context.is_unsettled = false;
    share_runs(file, &own, context)?;
    for (other, run) in turned {
        share_runs(other, &[run], context)?;
    }
    for run in &runs {
        let lies_here = matches!(run.source, Source::File { file: other, .. } if other == file);
        let is_zeros = run.source == Source::Zeros;
        if !(lies_here || is_zeros) || context.is_unsettled {
            kept.borrow(file, &(run.start..run.start + run.length), NOBODY);
        }
    }
    Ok(())
}

fn share_runs(file: u32, runs: &[run::Run], context: &mut Context<'_>) -> Result<()> {
    if runs.is_empty() || context.files.is_refused(file) {
        context.is_unsettled |= !runs.is_empty();
        return Ok(());
    }
    match context.account.unit() {
        Unit::Blocks => runs.iter().try_for_each(|run| blocks::apply(file, *run, context)),
        Unit::Extents => extents::apply(file, runs, context),
    }
}
