//! Submits runs to the kernel in windows, which it compares from the page cache; smaller windows where something
//! differs. A dry run compares runs itself if they were found by their checksums.

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
use crate::fs::pread::{prefetch, read_exact};
use std::os::fd::{AsFd as _, BorrowedFd};

/// A window that differs is halved down to this size.
const SMALLEST: u64 = 128 << 10;
/// The first window of a run. If nothing in it is equal, the checksums were equal by chance, or a file was changed.
const FIRST: u64 = 1 << 20;

/// Shares a range of `file` with its source. Returns the number of bytes that the kernel found equal.
pub(super) fn share(
    source: Source,
    (file, start): (u32, u64),
    length: u64,
    run: &Run<'_>,
    files: &mut Files<'_>,
    scratch: &mut Scratch<'_>,
) -> u64 {
    let Some(opened) = files.get(file).filter(|_| !files.is_refused(file)) else { return 0 };
    let here = (opened.as_fd(), start);
    let result = match source {
        Source::File { file: other, offset } => {
            if other == file && offset.abs_diff(start) < length {
                return 0;
            }
            let Some(there) = files.get(other) else { return 0 };
            submit((there.as_fd(), offset), here, length, true, run)
        }
        Source::Zeros => match scratch.hole(file, fidedupe::is_nocow(here.0), WINDOW) {
            Ok(hole) => submit((hole, 0), here, length, false, run),
            Err(_) => return 0,
        },
    };
    count_read(source, (file, start), result.compared, files);
    settle(&result, file, length, run, files)
}

/// Plans to share a range of `file` with its source. Returns the number of bytes that the kernel would share.
pub(super) fn plan(
    source: Source,
    (file, start): (u32, u64),
    length: u64,
    run: &Run<'_>,
    account: &Account,
    files: &mut Files<'_>,
) -> u64 {
    match source {
        _ if files.is_refused(file) => return 0,
        Source::File { file: other, offset } if other == file && offset.abs_diff(start) < length => return 0,
        _ => {}
    }
    if !files.is_unread() {
        // The scanner found the bytes equal.
        add(&run.counters.submitted, length);
        return if plan_part(source, (file, start), length, account, files) { length } else { 0 };
    }
    let result = in_windows(length, run, |at, length| {
        let (source, place) = (source.advanced(at), (file, start + at));
        let is_planned = is_equal(source, place, length, files) && plan_part(source, place, length, account, files);
        (!is_planned).then_some(Skip::Differs)
    });
    count_read(source, (file, start), result.compared, files);
    settle(&result, file, length, run, files)
}

/// Plans that a range of `file` has the extents of its source. `false`: these are unknown.
fn plan_part(source: Source, (file, start): (u32, u64), length: u64, account: &Account, files: &mut Files<'_>) -> bool {
    let end = files.whole_blocks(file, start + length);
    let pieces = match source {
        Source::Zeros => Vec::new(),
        Source::File { file: other, offset } => {
            let Ok(pieces) = files.pieces(other, offset, offset + (end - start), usize::MAX, false) else {
                return false;
            };
            // Cut to the range, so the pieces begin within it.
            let here = |piece: Piece| Piece { logical: piece.logical - offset + start, shared: true, ..piece };
            pieces.into_iter().map(here).collect()
        }
    };
    plan_pieces((file, start), length, &pieces, account, files);
    true
}

/// Whether a range of `file` has the bytes of its source.
fn is_equal(source: Source, (file, start): (u32, u64), length: u64, files: &mut Files<'_>) -> bool {
    let (Some(here), mut at) = (files.get(file), 0) else { return false };
    let there = match source {
        Source::Zeros => None,
        Source::File { file: other, offset } => match files.get(other) {
            Some(there) => Some((there, offset)),
            None => return false,
        },
    };
    let (mut one, mut other) = (vec![0; length.min(FIRST) as usize], vec![0; length.min(FIRST) as usize]);
    while at < length {
        let step = (length - at).min(FIRST) as usize;
        let (one, other) = (&mut one[..step], &mut other[..step]);
        let there = there.as_ref().map_or(Ok(()), |(there, offset)| read_exact(&**there, other, offset + at));
        if there.is_err() || read_exact(&*here, one, start + at).is_err() || one != other {
            return false;
        }
        at += step as u64;
    }
    true
}

/// Counts the bytes that were read to compare a range with its source, unless the scanner has read them.
fn count_read(source: Source, (file, start): (u32, u64), length: u64, files: &mut Files<'_>) {
    if !files.is_unread() {
        return;
    }
    files.count_read(file, start..start + length);
    if let Source::File { file, offset } = source {
        files.count_read(file, offset..offset + length);
    }
}

/// Plans that a range of `file` has these extents, if there is room for more plans: without a plan, the run may count
/// the range twice.
fn plan_pieces((file, start): (u32, u64), length: u64, pieces: &[Piece], account: &Account, files: &mut Files<'_>) {
    if !files.plan(file, start, length, pieces) {
        account.limit(Bound::AtMost);
    }
}

/// Plans to move a range of `file` to this extent of an unnamed file that would hold the same bytes.
pub(super) fn plan_move(
    (file, start): (u32, u64),
    length: u64,
    piece: Piece,
    run: &Run<'_>,
    account: &Account,
    files: &mut Files<'_>,
) {
    add(&run.counters.submitted, length);
    count_read(Source::Zeros, (file, start), length, files);
    plan_pieces((file, start), length, &[piece], account, files);
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
    let result = submit(there, (here.as_fd(), start), length, true, run);
    count_read(Source::Zeros, (file, start), result.compared, files);
    settle(&result, file, length, run, files)
}

/// Counts the bytes that could not be shared, and returns the number of shared bytes.
fn settle(result: &Result, file: u32, length: u64, run: &Run<'_>, files: &mut Files<'_>) -> u64 {
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
    /// Bytes that are shared now.
    shared: u64,
    /// Bytes in the windows that were compared.
    compared: u64,
    refused: Option<Skip>,
}

/// Submits a range in windows. `moves`: the source advances with the destination; otherwise each window has the same
/// source.
fn submit(
    there: (BorrowedFd<'_>, u64),
    here: (BorrowedFd<'_>, u64),
    length: u64,
    moves: bool,
    run: &Run<'_>,
) -> Result {
    let mut read = 0;
    in_windows(length, run, |at, length| {
        let source = (there.0, if moves { there.1 + at } else { there.1 });
        let place = (here.0, here.1 + at);
        // The halves of a window are in memory.
        if at >= read {
            if moves {
                prefetch(source.0, source.1..source.1 + length);
            }
            prefetch(place.0, place.1..place.1 + length);
            read = at + length;
        }
        fidedupe::submit(source, length, &[place]).first().copied().flatten()
    })
}

/// Shares a range in windows. `share` shares a part of it, or returns why it could not. Ends after a window without any
/// equal part.
fn in_windows(length: u64, run: &Run<'_>, mut share: impl FnMut(u64, u64) -> Option<Skip>) -> Result {
    let mut result = Result::default();
    while result.compared < length && result.refused.is_none() && !run.monitor.is_cancelled() {
        let (at, before) = (result.compared, result.shared);
        let step = if at == 0 { FIRST } else { WINDOW }.min(length - at);
        window(at, step, &mut share, &mut result, run);
        result.compared += step;
        if result.shared == before {
            break;
        }
    }
    result
}

fn window(at: u64, length: u64, share: &mut impl FnMut(u64, u64) -> Option<Skip>, result: &mut Result, run: &Run<'_>) {
    add(&run.counters.submitted, length);
    match share(at, length) {
        None => result.shared += length,
        Some(Skip::Differs) if length > SMALLEST => {
            let half = (length / 2).next_multiple_of(SMALLEST);
            window(at, half, share, result, run);
            if result.refused.is_none() {
                window(at + half, length - half, share, result, run);
            }
        }
        Some(Skip::Differs) => {}
        Some(reason) => result.refused = Some(reason),
    }
}
