//! Extents as `filefrag -v` prints them, byte for byte: positions in blocks, and the expected position of each extent
//! if the file were in one piece.
//!
//! Source: `misc/filefrag.c` of e2fsprogs 1.47. Its fallback for filesystems without extent maps, asking for each block
//! (`FIBMAP`), is not implemented.

use super::listing::{Total, has, raw_name};
use crate::error::Result;
use crate::extents::extent::{ExtentFlags, Reported};
use crate::fiemap::{File, Place, Stats};
use crate::program::output::lines::Lines;

/// filefrag's names of the flags, in its order.
const NAMES: [(ExtentFlags, &str); 12] = [
    (ExtentFlags::LAST, "last"),
    (ExtentFlags::UNKNOWN, "unknown_loc"),
    (ExtentFlags::DELALLOC, "delalloc"),
    (ExtentFlags::ENCODED, "encoded"),
    (ExtentFlags::DATA_ENCRYPTED, "encrypted"),
    (ExtentFlags::NOT_ALIGNED, "not_aligned"),
    (ExtentFlags::DATA_INLINE, "inline"),
    (ExtentFlags::DATA_TAIL, "tail_packed"),
    (ExtentFlags::UNWRITTEN, "unwritten"),
    (ExtentFlags::MERGED, "merged"),
    (ExtentFlags::SHARED, "shared"),
    (HOLE, "hole"),
];

/// `EXT4_FIEMAP_EXTENT_HOLE`, which no kernel reports to FIEMAP.
const HOLE: ExtentFlags = ExtentFlags(0x0800_0000);

/// The listing of all files. As in filefrag, the widths of the columns only grow from file to file.
pub(super) struct FilefragListing<'a> {
    lines: Lines<'a>,
    place: Option<Place>,
    logical_width: usize,
    physical_width: usize,
    shift: u32,
    size: u64,
    /// The number of extents so far, and how many of them were not at the expected position.
    number: u64,
    pieces: u64,
    last: Option<Reported>,
}

impl<'a> FilefragListing<'a> {
    pub(super) fn new(lines: Lines<'a>) -> Self {
        FilefragListing {
            lines,
            place: None,
            logical_width: 8,
            physical_width: 10,
            shift: 12,
            size: 0,
            number: 0,
            pieces: 0,
            last: None,
        }
    }

    /// The expected position of this extent, in bytes, if nothing lay between it and the last one. Returns 0 if the
    /// extent is there, or begins the file. Also counts the pieces.
    fn expected(&mut self, extent: &Reported) -> u64 {
        let last = self.last.unwrap_or(Reported { logical: 0, physical: 0, length: 0, flags: ExtentFlags::default() });
        let dense = last.physical.wrapping_add(last.length);
        let expected = last.physical.wrapping_add(extent.logical).wrapping_sub(last.logical);
        if extent.logical != 0 && extent.physical != expected && extent.physical != dense {
            self.pieces += 1;
            return expected;
        }
        self.pieces = self.pieces.max(1);
        0
    }

    fn header(&mut self) {
        let lines = &mut self.lines;
        lines.text(" ext: ");
        lines.right("logical_offset:", self.logical_width * 2 + 3);
        lines.text(" ");
        lines.right("physical_offset:", self.physical_width * 2 + 3);
        lines.text(" length: ");
        lines.right("expected:", self.physical_width + 1);
        lines.text(" flags:");
        lines.end();
    }
}

impl super::listing::ExtentListing for FilefragListing<'_> {
    fn begin(&mut self, file: &File) -> Result<()> {
        let place = match self.place {
            Some(place) if place.dev == file.status().dev && place.dev != 0 => place,
            _ => {
                let place = file.place()?;
                let lines = &mut self.lines;
                lines.text(format!("Filesystem type is: {:x}", place.magic));
                lines.end();
                if file.has_indirect_blocks(&place) {
                    let groups = place.blocks as u32;
                    let groups = groups.div_ceil((place.block_size as u32).wrapping_mul(8).max(1));
                    lines.text(format!("Filesystem cylinder groups approximately {groups}"));
                    lines.end();
                }
                self.place = Some(place);
                place
            }
        };
        let blocks = file.size().div_ceil(place.block_size);
        let width = |number: u64| number.checked_ilog10().unwrap_or(0) as usize;
        self.physical_width = self.physical_width.max(width(place.blocks));
        self.logical_width = self.logical_width.max(width(blocks));
        self.shift = place.block_size.ilog2();
        self.size = file.size();
        (self.number, self.pieces, self.last) = (0, 0, None);
        let shown = blocks.wrapping_mul(place.block_size) >> self.shift;
        let s = if blocks == 1 { "" } else { "s" };
        let lines = &mut self.lines;
        lines.text("File size of ");
        lines.text(raw_name(file.path(), lines.output()));
        lines.text(format!(" is {} ({shown} block{s} of {} bytes)", self.size, 1u64 << self.shift));
        lines.end();
        Ok(())
    }

    fn extent(&mut self, extent: &Reported) {
        if self.number == 0 {
            self.header();
        }
        let expected = self.expected(extent);
        // The length of inline data is printed in bytes.
        let shift = if has(extent, ExtentFlags::DATA_INLINE) { 0 } else { self.shift };
        let is_placeless = has(extent, ExtentFlags(ExtentFlags::UNKNOWN.0 | HOLE.0));
        let further = extent.length.wrapping_sub(1) >> shift;
        let logical = extent.logical >> shift;
        let physical = if has(extent, ExtentFlags::UNKNOWN) { 0 } else { extent.physical >> shift };
        let physical_end = if is_placeless { physical } else { physical.wrapping_add(further) };
        let length = if is_placeless { 0 } else { extent.length >> shift };
        let lines = &mut self.lines;
        lines.number_right(self.number, 4);
        lines.text(": ");
        lines.number_right(logical, self.logical_width);
        lines.text("..");
        lines.number_right(logical.wrapping_add(further), self.logical_width);
        lines.text(": ");
        lines.number_right(physical, self.physical_width);
        lines.text("..");
        lines.number_right(physical_end, self.physical_width);
        lines.text(": ");
        lines.number_right(length, 6);
        lines.text(": ");
        if expected != 0 && !is_placeless {
            lines.number_right(expected >> shift, self.physical_width);
            lines.text(":");
        } else {
            // filefrag's string of spaces has 19, and one more follows.
            lines.spaces(self.physical_width.min(19) + 1);
        }
        flags(lines, extent.flags);
        if extent.logical.wrapping_add(extent.length) >= self.size {
            lines.text(",eof");
        }
        lines.end();
        self.number += 1;
        self.last = Some(*extent);
    }

    fn end(&mut self, file: &File, _: &Stats) -> Result<()> {
        let lines = &mut self.lines;
        lines.text(raw_name(file.path(), lines.output()));
        lines.text(": ");
        lines.number(self.pieces);
        lines.text(if self.pieces == 1 { " extent found" } else { " extents found" });
        lines.end();
        lines.hand_on();
        Ok(())
    }

    fn break_off(&mut self) {
        self.lines.hand_on();
    }

    fn summarize(&mut self, _: &Total) {}
}

/// The flags, with a space before them if there are any. Flags without a name are printed as numbers.
fn flags(lines: &mut Lines<'_>, flags: ExtentFlags) {
    let mut before = " ";
    let mut rest = flags.0;
    for (flag, name) in NAMES {
        if rest & flag.0 != 0 {
            lines.text(before);
            lines.text(name);
            rest &= !flag.0;
            before = ",";
        }
    }
    while rest != 0 {
        let lowest = rest & rest.wrapping_neg();
        lines.text(format!("{before}0x{lowest:02x}"));
        rest &= !lowest;
        before = ",";
    }
}
