//! A look at the layouts before any data is read: how much there is to read, who shares with whom, and the order of
//! reading.

use super::context::Context;
use super::holders::{Collection, Holders};
use crate::dedupe::catalogue::FileId;
use crate::dedupe::skip::Skip;
use crate::extents::intervals::Place;
use crate::extents::layout;
use crate::extents::piece::Piece;
use crate::util::mutex::lock;
use crate::util::parallel;
use std::cmp::Reverse;
use std::os::fd::AsFd as _;
use std::sync::Mutex;

/// The number of pieces of a file that are read at once.
const PIECES: usize = 4096;

/// The work to do.
pub(super) struct Survey {
    /// The files, in the order of reading.
    pub(super) files: Vec<u32>,
    /// Bytes of data in them.
    pub(super) bytes: u64,
    /// The files with shared data, sorted.
    pub(super) sharing: Vec<u32>,
    /// The files with data that something outside the scope holds, and how much; sorted.
    pub(super) outside: Vec<(u32, u64)>,
}

impl Survey {
    /// Whether a file is the better one to keep of two with the same data: more of it is held by something outside
    /// the scope, or it cannot be changed.
    pub(super) fn prefers(&self, file: u32, other: u32) -> bool {
        let outside = |file: u32| {
            let at = self.outside.binary_search_by_key(&file, |(file, _)| *file);
            at.ok().map_or(0, |at| self.outside[at].1)
        };
        outside(file) > outside(other)
    }
}

/// Maps the files to be read. All other files on the same filesystem are searched for holders of the same places.
///
/// The first copy that is read is kept, and equal data found later is released. Files with parts held by something
/// outside the scope are therefore read first: those parts could not be freed anyway.
pub(super) fn survey(files: &[u32], mut shared: Collection, context: &mut Context<'_>) -> Survey {
    let mut bytes = 0;
    let (mut sharing, mut all_sharing) = (Vec::new(), Vec::new());
    let mut order: Vec<(Reverse<u64>, u32)> = Vec::with_capacity(files.len());
    for &file in files {
        let Some(opened) = context.files.get(file) else { continue };
        let obstacle = opened.obstacle();
        match obstacle {
            // The kernel accepts it neither as source nor as destination.
            Some(Skip::SwapFile) => continue,
            Some(reason) => context.files.refuse(file, reason),
            None => {}
        }
        let mut shares = false;
        pieces_of(file, context, |pieces, _| {
            shared.add(file, pieces);
            bytes += pieces.iter().map(|piece| piece.length).sum::<u64>();
            shares |= pieces.iter().any(|piece| piece.shared);
        });
        if shares {
            all_sharing.push(file);
        }
        if shares && obstacle.is_none() {
            sharing.push(order.len());
        }
        // A file that cannot be changed is the copy to keep.
        order.push((Reverse(if obstacle.is_some() { u64::MAX } else { 0 }), file));
    }
    if !sharing.is_empty() {
        add_others(files, &mut shared, context);
        context.holders = Holders::of(shared);
        for number in sharing {
            let file = order[number].1;
            let mut outside = 0;
            pieces_of(file, context, |pieces, context| outside += held_outside(file, pieces, context));
            order[number].0 = Reverse(outside);
        }
    }
    order.sort();
    let held = order.iter().take_while(|(Reverse(outside), _)| *outside > 0);
    let mut outside: Vec<_> = held.map(|(Reverse(outside), file)| (*file, *outside)).collect();
    outside.sort_unstable();
    all_sharing.sort_unstable();
    Survey { files: order.into_iter().map(|(_, file)| file).collect(), bytes, sharing: all_sharing, outside }
}

/// Adds the pieces that all other files of the filesystem hold and share.
fn add_others(files: &[u32], shared: &mut Collection, context: &mut Context<'_>) {
    let (run, catalogue) = (context.run, context.run.catalogue);
    let volume = files.first().map(|&file| catalogue.volume_number(FileId(file)));
    let mut looked_at: Vec<_> = files.to_vec();
    looked_at.sort_unstable();
    let is_other = |file: &FileId| {
        Some(catalogue.volume_number(*file)) == volume
            && catalogue.size(*file) > 0
            // Inline data holds no place.
            && !run.is_inline(*file)
            && looked_at.binary_search(&file.0).is_err()
    };
    let others = catalogue.ids().filter(is_other);
    let (planned, others): (Vec<_>, Vec<_>) = others.partition(|file| run.planned.twin(*file).is_some());
    for file in planned {
        pieces_of(file.0, context, |pieces, _| shared.add(file.0, pieces));
    }
    let others: Vec<_> = others.into_iter().map(|file| (file, context.files.way(file.0))).collect();
    let shared = Mutex::new(shared);
    parallel::each(run.threads.unwrap_or(parallel::READERS), others.chunks(64).collect(), |some| {
        for &(file, way) in some.iter().take_while(|_| !run.is_over()) {
            // A file that cannot be mapped was reported before, or will be when its data is read.
            let _ = run.open(file).map(|opened| {
                layout::shared(opened.as_fd(), way, catalogue.size(file), |pieces| {
                    lock(&shared).add(file.0, pieces);
                })
            });
        }
    });
}

/// Bytes in pieces that are shared, but not with anything in scope. (Where extents are shared as a whole, the kernel
/// marks an extent as shared even if a single file holds it in two parts.)
fn held_outside(file: u32, pieces: &[Piece], context: &Context<'_>) -> u64 {
    let is_outside = |piece: &&Piece| {
        let Some(start) = Piece { offset: 0, ..**piece }.address() else { return false };
        let length =
            if piece.encoded { piece.offset + piece.length } else { piece.disk.max(piece.offset + piece.length) };
        let is_another = |place: &Place<u32>| *place != Place { file, logical: piece.logical };
        piece.shared && !context.holders.tree.any(start, length, is_another)
    };
    pieces.iter().filter(is_outside).map(|piece| piece.length).sum()
}

/// Maps a file, some pieces at a time.
pub(super) fn pieces_of(file: u32, context: &mut Context<'_>, mut each: impl FnMut(&[Piece], &mut Context<'_>)) {
    let size = context.run.catalogue.size(FileId(file));
    let mut at = 0;
    while at < size && !context.run.is_over() {
        // A file that cannot be opened or mapped was reported before, or will be when its data is read.
        let Ok(pieces) = context.files.pieces(file, at, size, PIECES, at == 0) else { return };
        let Some(last) = pieces.last() else { return };
        at = last.end();
        each(&pieces, context);
    }
}
