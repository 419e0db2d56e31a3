//! Submits runs to the kernel in windows, which it compares from the page cache; smaller windows where something
//! differs.

use super::files::Files;
use super::run::Source;
use super::scratch::Scratch;
use crate::dedupe::account::Account;
use crate::dedupe::catalogue::FileId;
use crate::dedupe::run::{Run, add};
use crate::dedupe::skip::Skip;
use crate::extents::bound::Bound;
use crate::extents::piece::Piece;
use crate::fs::fidedupe::{self, WINDOW};
use crate::fs::pread::prefetch;
use std::os::fd::{AsFd as _, BorrowedFd};

/// A window that differs is halved down to this size.
const SMALLEST: u64 = 128 << 10;

/// Shares a range of `file` with its source. Returns the number of bytes that the kernel found equal.
pub(super) fn share(
    source: Source,
    (file, start): (u32, u64),
    length: u64,
    run: &Run<'_>,
    files: &mut Files<'_>,
    scratch: &mut Scratch<'_>,
) -> u64 {
    let Some(here) = files.get(file).filter(|_| !files.is_refused(file)) else { return 0 };
    let here = here.as_fd();
    let result = match source {
        Source::File { file: other, offset } => {
            if other == file && offset.abs_diff(start) < length {
                return 0;
            }
            let Some(there) = files.get(other) else { return 0 };
            in_windows((there.as_fd(), offset), (here, start), length, true, run)
        }
        Source::Zeros => match scratch.hole(file, fidedupe::is_nocow(here), WINDOW) {
            Ok(hole) => in_windows((hole, 0), (here, start), length, false, run),
            Err(_) => return 0,
        },
    };
    settle(result, file, length, run, files)
}

/// Plans to share a range of `file` with its source, after the bytes were found equal. Returns the number of bytes that
/// the kernel would share.
pub(super) fn plan(
    source: Source,
    (file, start): (u32, u64),
    length: u64,
    run: &Run<'_>,
    account: &Account,
    files: &mut Files<'_>,
) -> u64 {
    let end = files.whole_blocks(file, start + length);
    let pieces = match source {
        _ if files.is_refused(file) => return 0,
        Source::File { file: other, offset } if other == file && offset.abs_diff(start) < length => return 0,
        Source::Zeros => Vec::new(),
        Source::File { file: other, offset } => {
            let Ok(pieces) = files.pieces(other, offset, offset + (end - start), usize::MAX, false) else { return 0 };
            // Cut to the range, so the pieces begin within it.
            let here = |piece: Piece| Piece { logical: piece.logical - offset + start, shared: true, ..piece };
            pieces.into_iter().map(here).collect()
        }
    };
    add(&run.counters.submitted, length);
    plan_pieces((file, start), length, &pieces, account, files);
    length
}

/// Plans that a range of `file` has these extents, if there is room for more plans: without a plan, the run may count
/// the range twice.
pub(super) fn plan_pieces(
    (file, start): (u32, u64),
    length: u64,
    pieces: &[Piece],
    account: &Account,
    files: &mut Files<'_>,
) {
    if !files.plan(file, start, length, pieces) {
        account.limit(Bound::AtMost);
    }
}

/// Moves a range of `file` to the extents of an unnamed file that holds the same bytes.
pub(super) fn move_onto(
    there: (BorrowedFd<'_>, u64),
    (file, start): (u32, u64),
    length: u64,
    run: &Run<'_>,
    files: &mut Files<'_>,
) -> u64 {
    let Some(here) = files.get(file).filter(|_| !files.is_refused(file)) else { return 0 };
    let result = in_windows(there, (here.as_fd(), start), length, true, run);
    settle(result, file, length, run, files)
}

/// Counts the bytes that could not be shared, and returns the number of shared bytes.
fn settle(result: Result, file: u32, length: u64, run: &Run<'_>, files: &mut Files<'_>) -> u64 {
    if result.shared > 0 {
        run.set_moved(FileId(file));
    }
    match result.refused {
        // The reason concerns the pair of files, not this file alone.
        Some(Skip::Nocow) => run.record_skip(FileId(file), Skip::Nocow),
        Some(reason) => {
            files.refuse(file, reason);
            run.record_skip(FileId(file), reason);
        }
        None if result.shared < length && !run.monitor.is_cancelled() => run.record_skip(FileId(file), Skip::Differs),
        None => {}
    }
    result.shared
}

#[derive(Default)]
struct Result {
    shared: u64,
    refused: Option<Skip>,
}

/// `moves`: the source advances with the destination; otherwise each window has the same source.
fn in_windows(
    there: (BorrowedFd<'_>, u64),
    here: (BorrowedFd<'_>, u64),
    length: u64,
    moves: bool,
    run: &Run<'_>,
) -> Result {
    let mut result = Result::default();
    let mut at = 0;
    while at < length && result.refused.is_none() && !run.monitor.is_cancelled() {
        let step = WINDOW.min(length - at);
        let source = (there.0, if moves { there.1 + at } else { there.1 });
        if moves {
            prefetch(source.0, source.1..source.1 + step);
        }
        prefetch(here.0, here.1 + at..here.1 + at + step);
        window(source, (here.0, here.1 + at), step, moves, &mut result, run);
        at += step;
    }
    result
}

fn window(
    there: (BorrowedFd<'_>, u64),
    here: (BorrowedFd<'_>, u64),
    length: u64,
    moves: bool,
    result: &mut Result,
    run: &Run<'_>,
) {
    add(&run.counters.submitted, length);
    match fidedupe::submit(there, length, &[here]).first().copied().flatten() {
        None => result.shared += length,
        Some(Skip::Differs) if length > SMALLEST => {
            let half = (length / 2).next_multiple_of(SMALLEST);
            window(there, here, half, moves, result, run);
            if result.refused.is_none() {
                let there = (there.0, if moves { there.1 + half } else { there.1 });
                window(there, (here.0, here.1 + half), length - half, moves, result, run);
            }
        }
        Some(Skip::Differs) => {}
        Some(reason) => result.refused = Some(reason),
    }
}
