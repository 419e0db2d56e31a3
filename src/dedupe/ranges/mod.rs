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
use self::scan::Scanner;
use self::scratch::Scratch;
use super::account::Unit;
use super::catalogue::FileId;
use super::run::Run;
use crate::content::block_index::Index;
use crate::fs::fidedupe;
use crate::fs::filesystem::Kind;
use crate::monitor::{Amount, Event, Pinned};
use rustix::io::Result;
use std::collections::BTreeMap;
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
/// Memory: `index_memory`, and a few MiB.
pub(crate) fn share(run: &Run<'_>, files: &[FileId], options: &Options) -> bool {
    let mut groups: BTreeMap<(u16, bool), Vec<u32>> = BTreeMap::new();
    for &file in files.iter().filter(|&&file| run.catalogue.size(file) >= smallest(options)) {
        // Files that Btrfs writes in place share only with each other.
        let is_btrfs = run.catalogue.volume(file).kind == Kind::Btrfs;
        let nocow = is_btrfs && run.opener.open(file).is_ok_and(|opened| fidedupe::is_nocow(opened.as_fd()));
        groups.entry((run.catalogue.volume_number(file), nocow)).or_default().push(file.0);
    }
    let mut left = BTreeMap::new();
    for ((_, nocow), files) in groups {
        share_among(run, &files, nocow, options, &mut left);
    }
    for (why, bytes) in left {
        run.monitor.event(Event::NotShared { bytes, why });
    }
    !run.is_over()
}

/// The same for files of one kind on one filesystem. `nocow`: Btrfs writes them in place.
fn share_among(run: &Run<'_>, files: &[u32], nocow: bool, options: &Options, left: &mut BTreeMap<Pinned, u64>) {
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
    let mut context = Context {
        run,
        account: run.account(FileId(first)),
        files: Files::new(run, privileged, format, options.index_memory / 4),
        lists: ExtentLists::default(),
        scratch: Scratch::new(run),
        holders: Holders::none(volume.space),
        seen: Seen::new(volume.space, other_memory / 2 / 64),
        block,
        min_run,
        left: std::mem::take(left),
    };
    let shared = Collection::new(volume.space, other_memory / 2);
    let survey = survey::survey(files, shared, &mut context);
    run.monitor.phase("comparing blocks", Some(Amount { files: survey.files.len() as u64, bytes: survey.bytes }));
    let blocks = survey.bytes.div_ceil(block);
    let index = Index::new(index_memory, blocks);
    if index.modulus() > 1 {
        run.monitor.event(Event::IndexSampled { one_in: index.modulus(), run_bytes: index.modulus() * block * 4 });
    }
    let mut scanner = Scanner::new(index, context.files.form(block, min_run, blocks), min_run);
    let unit = context.account.unit();
    for file in survey.files {
        if run.is_over() {
            break;
        }
        if let Err(errno) = look_through(file, unit, &mut scanner, &mut context) {
            run.failed(FileId(file), "read the extents of", errno);
        }
        run.monitor.advance(Amount { files: 1, bytes: 0 });
    }
    blocks::finish(&mut context);
    *left = context.left;
}

/// Reads one file and shares the ranges found in it.
fn look_through(file: u32, unit: Unit, scanner: &mut Scanner, context: &mut Context<'_>) -> Result<()> {
    let Some(opened) = context.files.get(file) else { return Ok(()) };
    let size = opened.status().size;
    scanner.begin(file, size);
    let mut runs = Vec::new();
    let (mut at, mut since, mut is_first) = (0, 0, true);
    while at < size && !context.run.is_over() {
        // Dirty pages are written back once, before the first map is read.
        let pieces = context.files.pieces(file, at, size, PIECES, is_first)?;
        is_first = false;
        let Some(last) = pieces.last() else { break };
        at = last.end();
        for piece in &pieces {
            if piece.shared {
                if context.seen.contains(piece) {
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
                        apply(file, unit, &mut runs, context)?;
                    }
                }
                context.run.monitor.advance(Amount { files: 0, bytes: to - from });
                since += to - from;
                from = to;
            }
            if since >= BATCH.0 || runs.len() >= BATCH.1 {
                runs.extend(scanner.flush());
                apply(file, unit, &mut runs, context)?;
                since = 0;
            }
        }
    }
    runs.extend(scanner.finish());
    apply(file, unit, &mut runs, context)
}

fn apply(file: u32, unit: Unit, runs: &mut Vec<run::Run>, context: &mut Context<'_>) -> Result<()> {
    if !runs.is_empty() && context.files.is_refused(file) {
        runs.clear();
    }
    match unit {
        Unit::Blocks => runs.drain(..).try_for_each(|run| blocks::apply(file, run, context)),
        Unit::Extents => {
            let runs = std::mem::take(runs);
            extents::apply(file, &runs, context)
        }
    }
}
