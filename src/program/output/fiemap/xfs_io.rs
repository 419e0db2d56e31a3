//! Extents as `xfs_io -r -c 'fiemap -v'` prints them, byte for byte, and without `-v`: offsets, positions and lengths
//! in units of 512 bytes, holes shown.
//!
//! Source: `io/fiemap.c` of xfsprogs 6.1.

use super::listing::{Total, raw_name};
use crate::error::Result;
use crate::extents::extent::{ExtentFlags, Reported};
use crate::fiemap::{File, Stats};
use crate::program::output::lines::Lines;

/// The number of extents that xfs_io requests from the kernel at once. The first batch decides the widths of the
/// columns.
const BATCH: usize = 32;

/// The listing of all files.
pub(super) struct XfsIoListing<'a> {
    lines: Lines<'a>,
    /// Whether to print a table with flags; otherwise plain lines.
    verbose: bool,
    /// The first extents, until the widths are known.
    held: Vec<Reported>,
    widths: Option<Widths>,
    /// The number of the next line.
    number: u64,
    /// The file has been listed up to this offset in bytes.
    listed: u64,
}

/// The columns of the table: offsets, blocks, length, flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Widths {
    offsets: usize,
    blocks: usize,
    length: usize,
    flags: usize,
}

impl<'a> XfsIoListing<'a> {
    pub(super) fn new(lines: Lines<'a>, verbose: bool) -> Self {
        XfsIoListing { lines, verbose, held: Vec::with_capacity(BATCH), widths: None, number: 0, listed: 0 }
    }

    /// Fixes the widths and prints the extents that were held back.
    fn settle(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let widths = Widths::of(&self.held);
        self.widths = Some(widths);
        let lines = &mut self.lines;
        lines.text(" EXT: ");
        left(lines, "FILE-OFFSET", widths.offsets);
        lines.text(" ");
        left(lines, "BLOCK-RANGE", widths.blocks);
        lines.text(" ");
        lines.right("TOTAL", widths.length);
        lines.text(" ");
        lines.right("FLAGS", widths.flags);
        lines.end();
        let mut held = std::mem::take(&mut self.held);
        held.iter().for_each(|extent| self.row(extent));
        held.clear();
        self.held = held;
    }

    fn row(&mut self, extent: &Reported) {
        let start = sectors(extent.logical);
        if start > sectors(self.listed) {
            self.hole(start);
        }
        self.listed = extent.logical.wrapping_add(extent.length);
        self.line(start, sectors(extent.length), Some((sectors(extent.physical), extent.flags)));
    }

    /// Prints the hole between the listed part and a sector.
    fn hole(&mut self, end: u64) {
        let start = sectors(self.listed);
        self.line(start, end.wrapping_sub(start), None);
    }

    /// The line for `length` sectors of the file from `start` on: an extent at a block, or a hole.
    fn line(&mut self, start: u64, length: u64, extent: Option<(u64, ExtentFlags)>) {
        let (lines, widths) = (&mut self.lines, self.widths);
        if widths.is_some() {
            lines.number_right(self.number, 4);
        } else {
            lines.text("\t");
            lines.number(self.number);
        }
        self.number += 1;
        lines.text(": ");
        let from = lines.length();
        lines.text("[");
        blocks(lines, start, length);
        lines.text("]:");
        lines.pad_since(from, widths.map_or(0, |widths| widths.offsets));
        lines.text(" ");
        let from = lines.length();
        match extent {
            Some((block, _)) => blocks(lines, block, length),
            None => lines.text("hole"),
        }
        if let Some(widths) = widths {
            lines.pad_since(from, widths.blocks);
            lines.text(" ");
            lines.number_right(length, widths.length);
            if let Some((_, flags)) = extent {
                lines.text(" ");
                let digits = hex_digits(flags);
                lines.spaces(widths.flags.saturating_sub(digits + 2));
                lines.text("0x");
                hex(lines, flags.0, digits);
            }
        }
        lines.end();
    }
}

impl super::listing::ExtentListing for XfsIoListing<'_> {
    fn begin(&mut self, file: &File) -> Result<()> {
        self.widths = None;
        self.held.clear();
        (self.number, self.listed) = (0, 0);
        self.lines.text(raw_name(file.path(), self.lines.output()));
        self.lines.text(":");
        self.lines.end();
        Ok(())
    }

    fn extent(&mut self, extent: &Reported) {
        if !self.verbose || self.widths.is_some() {
            return self.row(extent);
        }
        self.held.push(*extent);
        if self.held.len() == BATCH {
            self.settle();
        }
    }

    fn end(&mut self, file: &File, _: &Stats) -> Result<()> {
        self.settle();
        // Like xfs_io: the current size, and no hole in a file that is nothing but a hole.
        let size = file.size_now()?;
        if self.number > 0 && self.listed < size {
            self.hole(sectors(size));
        }
        self.lines.hand_on();
        Ok(())
    }

    fn break_off(&mut self) {
        self.settle();
        self.lines.hand_on();
    }

    fn summarize(&mut self, _: &Total) {}
}

/// xfs_io's units: sectors of 512 bytes.
fn sectors(bytes: u64) -> u64 {
    bytes >> 9
}

impl Widths {
    /// The widths that the first extents need, but not less than xfs_io's minimum.
    fn of(extents: &[Reported]) -> Widths {
        // xfs_io formats into buffers of 32 bytes to measure.
        let cut = |width: usize| width.min(31);
        let range =
            |start: u64, length: u64| digits(start) + "..".len() + digits(start.wrapping_add(length).wrapping_sub(1));
        let mut widths = Widths { offsets: 16, blocks: 16, length: 5, flags: 5 };
        for extent in extents {
            let length = sectors(extent.length);
            widths.offsets = widths.offsets.max(cut(range(sectors(extent.logical), length) + "[]".len()));
            widths.blocks = widths.blocks.max(cut(range(sectors(extent.physical), length)));
            widths.length = widths.length.max(digits(length));
            widths.flags = widths.flags.max(hex_digits(extent.flags));
            if extent.flags.contains(ExtentFlags::LAST) {
                break;
            }
        }
        widths
    }
}

/// `first..last`. For a length of 0 sectors, the last one lies before the first; xfs_io prints the same.
fn blocks(lines: &mut Lines<'_>, start: u64, length: u64) {
    lines.number(start);
    lines.text("..");
    lines.number(start.wrapping_add(length).wrapping_sub(1));
}

fn left(lines: &mut Lines<'_>, text: &str, width: usize) {
    let from = lines.length();
    lines.text(text);
    lines.pad_since(from, width);
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

fn hex_digits(flags: ExtentFlags) -> usize {
    flags.0.checked_ilog2().unwrap_or(0) as usize / 4 + 1
}

fn hex(lines: &mut Lines<'_>, number: u32, digits: usize) {
    for digit in (0..digits).rev() {
        lines.text([b"0123456789abcdef"[(number >> (4 * digit)) as usize & 0xf]]);
    }
}
