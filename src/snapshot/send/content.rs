//! Sends the content of one file: references to data that the receiver has, and the rest.

use super::load::File;
use super::places::Places;
use crate::error::{Error, Result};
use crate::extents::piece::Piece;
use crate::extents::ranges::Bytes;
use crate::fs::pread;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::stream::{Op, Output};
use crate::snapshot::unreadable;
use crate::tree::walk::absolute;
use std::io::Write;

/// How much is read at once, and how far the kernel reads ahead, in bytes.
const CHUNK: u64 = 1 << 20;
const AHEAD: u64 = 8 << 20;

/// A part of the content, in the order of the offsets.
enum Part<'p> {
    Data(Bytes),
    Piece(&'p Piece, Bytes),
    Hole(Bytes),
}

impl<'p> Part<'p> {
    /// The part of it behind an offset.
    fn behind(self, from: u64) -> Option<Part<'p>> {
        let range = self.range().start.max(from)..self.range().end;
        match self {
            _ if range.is_empty() => None,
            Part::Data(_) => Some(Part::Data(range)),
            Part::Piece(piece, _) => Some(Part::Piece(piece, range)),
            Part::Hole(_) => Some(Part::Hole(range)),
        }
    }

    fn range(&self) -> &Bytes {
        match self {
            Part::Data(range) | Part::Piece(_, range) | Part::Hole(range) => range,
        }
    }
}

/// Sends the parts of a file behind the offset `from`. Returns the bytes of data, and of references to other files.
pub(super) fn send<W: Write>(
    out: &mut Output<W>,
    file: &File,
    from: u64,
    path: &[u8],
    places: &Places,
    monitor: &dyn Monitor,
) -> Result<(u64, u64)> {
    let (mut data, mut shared) = (0, 0);
    // It is the content of all parts.
    let mut content = file.content.as_deref().filter(|_| from == 0);
    let mut ahead = Prefetch { file, next: 0, reach: 0 };
    for part in parts(file).into_iter().filter_map(|part| part.behind(from)) {
        match part {
            Part::Hole(range) => out.push(&Op::Hole { offset: range.start, length: range.end - range.start })?,
            Part::Data(range) => {
                data += range.end - range.start;
                bytes(out, &mut ahead, &mut content, range, path, monitor)?;
            }
            Part::Piece(piece, range) => {
                let mut at = range.start;
                while at < range.end {
                    let (place, length) = places.find(piece, at, range.end);
                    match place {
                        Some(from) => {
                            shared += length;
                            // The content was read with the rest.
                            content = content.map(|rest| rest.get(length as usize..).unwrap_or_default());
                            out.push(&Op::Clone { offset: at, length, from })?;
                        }
                        None => {
                            data += length;
                            bytes(out, &mut ahead, &mut content, at..at + length, path, monitor)?;
                        }
                    }
                    at += length;
                }
            }
        }
    }
    out.push(&Op::Complete)?;
    Ok((data, shared))
}

/// The parts that are sent, in order.
fn parts(file: &File) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = file.holes.iter().cloned().map(Part::Hole).collect();
    let mut pieces = file.pieces.iter().peekable();
    for range in &file.data {
        let mut at = range.start;
        while at < range.end {
            while pieces.next_if(|piece| piece.end() <= at).is_some() {}
            let part = match pieces.peek() {
                Some(piece) if piece.logical <= at => Part::Piece(piece, at..piece.end().min(range.end)),
                Some(piece) => Part::Data(at..piece.logical.min(range.end)),
                None => Part::Data(at..range.end),
            };
            at = part.range().end;
            parts.push(part);
        }
    }
    parts.sort_by_key(|part| part.range().start);
    join(parts)
}

/// Adjacent pieces that are not shared need no operations of their own.
fn join(parts: Vec<Part<'_>>) -> Vec<Part<'_>> {
    let mut joined: Vec<Part<'_>> = Vec::with_capacity(parts.len());
    for part in parts {
        let part = match part {
            Part::Piece(piece, range) if !piece.shared || piece.encoded => Part::Data(range),
            part => part,
        };
        match (joined.last_mut(), &part) {
            (Some(Part::Data(last)), Part::Data(range)) if last.end == range.start => last.end = range.end,
            _ => joined.push(part),
        }
    }
    joined
}

/// Sends a range of data, from `content` if it is there.
fn bytes<W: Write>(
    out: &mut Output<W>,
    ahead: &mut Prefetch<'_>,
    content: &mut Option<&[u8]>,
    range: Bytes,
    path: &[u8],
    monitor: &dyn Monitor,
) -> Result<()> {
    out.push(&Op::Data { offset: range.start, length: range.end - range.start })?;
    if let Some(rest) = content {
        let (now, later) = rest.split_at_checked((range.end - range.start) as usize).unwrap_or((rest, &[]));
        *content = Some(later);
        monitor.advance(Amount { files: 0, bytes: now.len() as u64 });
        return out.append(now);
    }
    let mut at = range.start;
    while at < range.end {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        ahead.reach(at);
        let length = (range.end - at).min(CHUNK);
        out.append_with(length as usize, |buffer| {
            pread::read_exact(&ahead.file.fd, buffer, at)
                .map_err(|errno| unreadable::stored("read", absolute(path), errno))
        })?;
        monitor.advance(Amount { files: 0, bytes: length });
        at += length;
    }
    Ok(())
}

/// Makes the kernel read scattered ranges before they are needed.
struct Prefetch<'f> {
    file: &'f File,
    /// The first range that was not requested.
    next: usize,
    /// The offset up to which data was requested.
    reach: u64,
}

impl Prefetch<'_> {
    fn reach(&mut self, at: u64) {
        if at + AHEAD / 2 < self.reach {
            return;
        }
        let mut sum = 0;
        while let Some(range) = self.file.data.get(self.next).filter(|_| sum < AHEAD) {
            let start = range.start.max(self.reach);
            let end = range.end.min(start.saturating_add(AHEAD));
            if start < end {
                pread::prefetch(&self.file.fd, start..end);
                sum += end - start;
                self.reach = end;
            }
            if end >= range.end {
                self.next += 1;
            }
        }
    }
}
