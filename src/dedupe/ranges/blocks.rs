//! Runs on filesystems where each block is free when nobody holds it (XFS): each run as it is, all holders of what it
//! replaces together, or not at all.

use super::context::{Context, Part};
use super::plan::Why;
use super::run::{Run, Source, disjoint};
use crate::dedupe::account::Unit;
use crate::dedupe::map::{self, Map};
use crate::layout::Piece;
use rustix::io::Result;

/// Shares a run of a file.
pub(super) fn apply(file: u32, run: Run, context: &mut Context<'_>) -> Result<()> {
    for run in disjoint(run, file, context.min_run) {
        let parts = context.parts(file, run)?;
        // What only this file holds goes in one request, however many pieces it lies in.
        for group in parts.chunk_by(|a, b| !a.piece.shared && !b.piece.shared && touch(a, b)) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            if first.piece.shared {
                replace_shared(file, first, context)?;
            } else {
                let end = last.piece.end().min(run.start + run.length);
                replace(file, first.piece.logical, end, first.source, context)?;
            }
            group.iter().filter_map(|part| part.from.as_ref()).for_each(|from| context.seen.add(from));
        }
    }
    Ok(())
}

fn touch(a: &Part, b: &Part) -> bool {
    a.piece.end() == b.piece.logical && a.source.advanced(a.piece.length) == b.source
}

/// Shares a range of a file with a source, and books what comes free by it.
fn replace(file: u32, start: u64, end: u64, source: Source, context: &mut Context<'_>) -> Result<()> {
    let before = context.files.pieces(file, start, end, usize::MAX, false)?;
    let end = end.min(context.run.catalogue.size(crate::dedupe::file::FileId(file)));
    if context.run.dry_run {
        let alone = before.iter().filter(|piece| !piece.shared).map(|piece| piece.length).sum();
        context.run.account.add(alone, 0);
        context.count_shared(source, file, end - start);
        return Ok(());
    }
    context.share(source, file, start, end - start);
    let after = context.files.pieces(file, start, end, usize::MAX, false)?;
    context.run.account.book(&map_of(&before), &map_of(&after), Unit::Blocks);
    Ok(())
}

/// The same for a piece that others hold too: all of them in scope, or none if there is none.
fn replace_shared(file: u32, part: &Part, context: &mut Context<'_>) -> Result<()> {
    let piece = part.piece;
    let (from, to) = (piece.address(), piece.address() + piece.length);
    let others = if context.holders.is_overflown() {
        Vec::new()
    } else {
        context.still_holding(from, to, (file, piece.logical, piece.end()))
    };
    if others.is_empty() {
        context.leave(Why::Held, piece.length);
        context.run.account.pin(from..to);
        return Ok(());
    }
    for other in others {
        let source = part.source.advanced(other.address - from);
        if source != (Source::File { file: other.file, offset: other.logical }) {
            replace(other.file, other.logical, other.logical + other.length, source, context)?;
        }
    }
    if context.run.dry_run {
        context.run.account.add(piece.length, 0);
    }
    replace(file, piece.logical, piece.end(), part.source, context)
}

fn map_of(pieces: &[Piece]) -> Map {
    let piece = |piece: &Piece| map::Piece {
        logical: piece.logical,
        physical: Some(piece.extent + piece.offset),
        length: piece.length,
        weight: piece.length,
        shared: piece.shared,
        encoded: false,
        estimated: false,
        unwritten: false,
    };
    Map::from_pieces(pieces.iter().map(piece).collect())
}
