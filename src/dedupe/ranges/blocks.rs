//! Runs on filesystems that free each block when nobody holds it (XFS). Each run is shared as found. For the blocks
//! that it replaces, all holders change together or none does.

use super::context::{Context, Part};
use super::run::{Run, Source, disjoint};
use crate::dedupe::catalogue::FileId;
use crate::extents::bound::Bound;
use crate::extents::intervals::Place;
use crate::extents::map::Map;
use crate::extents::piece::Piece;
use crate::monitor::Pinned;
use rustix::io::Result;

/// Shares a run of a file.
pub(super) fn apply(file: u32, run: Run, context: &mut Context<'_>) -> Result<()> {
    for run in disjoint(run, file, context.min_run) {
        let parts = context.parts(file, run)?;
        // Blocks that only this file holds go in one request, however many pieces they lie in.
        for group in parts.chunk_by(|a, b| !a.piece.shared && !b.piece.shared && touch(a, b)) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            if first.piece.shared {
                replace_shared(file, first, context)?;
            } else {
                let end = last.piece.end().min(run.start + run.length);
                replace(file, first.piece.logical, end, first.source, false, context)?;
            }
            group.iter().filter_map(|part| part.from.as_ref()).for_each(|from| context.seen.add(from));
        }
    }
    Ok(())
}

/// Books the blocks of the extent lists when all runs are done.
pub(super) fn finish(context: &mut Context<'_>) {
    for file in context.lists.files() {
        if let Some(opened) = context.files.get(file) {
            context.lists.book(file, &*opened, context.account);
        }
    }
}

fn touch(a: &Part, b: &Part) -> bool {
    a.piece.end() == b.piece.logical && a.source.advanced(a.piece.length) == b.source
}

/// Shares a range of a file with a source, and books the blocks that this frees. `is_last`: all other files in scope
/// that held these blocks have dropped them.
fn replace(file: u32, start: u64, end: u64, source: Source, is_last: bool, context: &mut Context<'_>) -> Result<()> {
    let whole = context.files.whole_blocks(file, end);
    let end = end.min(context.run.catalogue.size(FileId(file)));
    if start >= end {
        // The file has grown since the walk. Its new part stays.
        return Ok(());
    }
    let before = context.files.pieces(file, start, whole, usize::MAX, false)?;
    if !context.run.dry_run
        && let Some(opened) = context.files.get(file)
    {
        context.lists.watch(file, &*opened);
    }
    context.share(source, file, start, end - start);
    let after = context.files.pieces(file, start, whole, usize::MAX, false)?;
    context.lists.change(file, length(&before), length(&after));
    let mut held = Map::from_pieces(before);
    if context.run.dry_run {
        // The number of blocks for the extent list is unknown before the run.
        context.account.limit(Bound::AtMost);
        if is_last {
            // Nothing has changed, so the kernel still reports them as shared; a file outside may hold them too.
            held = held.unshared();
        }
    }
    context.account.book(&held, &Map::from_pieces(after));
    Ok(())
}

fn length(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.length).sum()
}

/// The same for a piece that other files hold too. Either all holders in scope share the source afterwards, or none
/// does.
fn replace_shared(file: u32, part: &Part, context: &mut Context<'_>) -> Result<()> {
    let piece = part.piece;
    let Some(at) = piece.address() else { return Ok(()) };
    let taken = context.files.whole_blocks(file, piece.end()) - piece.logical;
    let others = if context.holders.is_overflown {
        Vec::new()
    } else {
        context.still_holding(at, piece.length, (file, piece.logical, piece.end()))
    };
    if others.is_empty() {
        context.leave(Pinned::Held, piece.length);
        context.account.pin(at, taken);
        return Ok(());
    }
    for other in others {
        let Place { file, logical } = other.by;
        let source = part.source.advanced(other.ahead);
        if source != (Source::File { file, offset: logical }) {
            replace(file, logical, logical + other.length, source, false, context)?;
        }
    }
    replace(file, piece.logical, piece.end(), part.source, true, context)
}
