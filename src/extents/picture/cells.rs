//! Cells: equal parts of a row, with the bytes of each class that fall into them.

use super::class::{Class, Span};
use std::cmp::Reverse;

/// A part of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Where it begins in the file.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    bytes: [u64; Class::COUNT],
}

impl Cell {
    /// The number of its bytes that have this class.
    pub(crate) fn bytes(&self, class: Class) -> u64 {
        self.bytes[class.index()]
    }

    /// The class that represents the cell, and whether all of the cell has that class. It is the class with the most
    /// bytes, except that a hole needs three quarters of the cell, so that data with gaps between looks like data.
    /// `None` for an empty cell.
    pub(crate) fn main(&self) -> Option<(Class, bool)> {
        let total: u64 = self.bytes.iter().sum();
        let is_hole = self.bytes(Class::Hole) >= total - total / 4;
        let content = Class::all().filter(|class| *class != Class::Hole);
        let main = if is_hole { Class::Hole } else { content.min_by_key(|class| Reverse(self.bytes(*class)))? };
        (total > 0).then(|| (main, self.bytes(main) == total))
    }
}

/// The cells of a row while they are counted.
#[derive(Debug)]
pub(super) struct Grid {
    cells: Vec<Cell>,
    longest: u64,
    count: usize,
}

impl Grid {
    /// The cells of a file that ends at `end`. The scale gives the longest file `count` cells.
    pub(super) fn new(end: u64, longest: u64, count: usize) -> Self {
        let bound = |cell: usize| bound(cell, longest, count);
        let mut cells = Vec::new();
        // A small file gets a cell too, unless it is empty.
        while cells.len() < count && bound(cells.len()) < end {
            let start = bound(cells.len());
            let cell_end = bound(cells.len() + 1).min(end);
            let mut bytes = [0; Class::COUNT];
            bytes[Class::Hole.index()] = cell_end - start;
            cells.push(Cell { start, end: cell_end, bytes });
        }
        Grid { cells, longest, count }
    }

    /// Changes a range from a hole to this class.
    pub(super) fn add(&mut self, span: &Span) {
        self.replace(span, Class::Hole);
    }

    /// Changes a range from class `before` to another class.
    pub(super) fn replace(&mut self, span: &Span, before: Class) {
        let first = cell_of(span.start, self.longest, self.count);
        for cell in self.cells.iter_mut().skip(first) {
            if cell.start >= span.end {
                break;
            }
            // Bytes that do not have class `before` changed while the file was read; the cell keeps its size.
            let covered = span.end.min(cell.end).saturating_sub(span.start.max(cell.start));
            let covered = covered.min(cell.bytes[before.index()]);
            cell.bytes[before.index()] -= covered;
            cell.bytes[span.class.index()] += covered;
        }
    }

    pub(super) fn finish(self) -> Vec<Cell> {
        self.cells
    }
}

/// Where a cell begins.
fn bound(cell: usize, longest: u64, count: usize) -> u64 {
    (longest as u128 * cell as u128 / count as u128) as u64
}

/// A cell that ends behind this offset: the one that contains it, or the one before.
fn cell_of(offset: u64, longest: u64, count: usize) -> usize {
    let cell = (offset as u128 * count as u128 / longest as u128) as usize;
    cell.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cover_a_row_without_gaps_at_any_scale() {
        for (end, longest, count) in [(10, 10, 3), (7, 1000, 80), (u64::MAX, u64::MAX, 7), (1, 1, 100), (999, 1000, 64)]
        {
            let cells = Grid::new(end, longest, count).finish();
            assert_eq!(cells[0].start, 0);
            assert_eq!(cells.last().unwrap().end, end);
            assert!(cells.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(cells.len() <= count);
        }
    }

    #[test]
    fn each_byte_is_counted_once() {
        let mut grid = Grid::new(1000, 1000, 7);
        for start in (0..1000).step_by(30) {
            grid.add(&Span { start, end: start + 13, class: Class::Data });
        }
        grid.replace(&Span { start: 30, end: 43, class: Class::Group(0) }, Class::Data);
        let cells = grid.finish();
        let sum = |class| cells.iter().map(|cell| cell.bytes(class)).sum::<u64>();
        assert_eq!((sum(Class::Data), sum(Class::Group(0))), (33 * 13 + 10 - 13, 13));
        assert_eq!(Class::all().map(sum).sum::<u64>(), 1000);
    }
}
