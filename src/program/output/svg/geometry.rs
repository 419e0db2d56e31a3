//! Sizes and positions in a picture.

use crate::extents::picture::Layout;

/// The maximum numbers of files and of bands drawn.
pub(crate) const ROWS: usize = 100;
pub(crate) const BANDS: usize = 2000;
/// The maximum number of exact ranges in a row; a row with more is drawn by columns.
pub(crate) const SPANS: usize = 300;
/// A cell is as wide as one unit of the picture.
pub(crate) const CELLS: usize = 920;

pub(super) const WIDTH: usize = 1200;
/// The positions where names and bars begin.
pub(super) const MARGIN: usize = 28;
pub(super) const LEFT: usize = 240;
/// Characters of a name that fit before the bar.
pub(super) const NAME: usize = 28;

/// The positions of the rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) top: f64,
    pub(super) bar: f64,
    pub(super) pitch: f64,
    pub(super) rows: usize,
    /// Room below the last row, for bands that end in the row they began in.
    pub(super) tail: f64,
}

impl Geometry {
    /// `is_compact`: with little room between few rows, for a page with other things.
    pub(super) fn of(layout: &Layout, is_compact: bool) -> Geometry {
        let (bar, gap): (f64, f64) = match layout.rows.len() {
            0..=8 if is_compact => (26.0, 30.0),
            0..=8 => (34.0, 66.0),
            9..=20 => (26.0, 38.0),
            21..=40 => (22.0, 24.0),
            _ => (18.0, 14.0),
        };
        let gap = if layout.bands.is_empty() { gap.min(26.0) } else { gap };
        let last = layout.rows.len().saturating_sub(1);
        let tail = if layout.bands.iter().any(|band| band.rows == [last, last]) { gap } else { 0.0 };
        Geometry { top: 128.0, bar, pitch: bar + gap, rows: layout.rows.len(), tail }
    }

    pub(super) fn row(&self, row: usize) -> f64 {
        self.top + self.pitch * row as f64
    }

    /// The position where the last row ends.
    pub(super) fn bottom(&self) -> f64 {
        self.row(self.rows.saturating_sub(1)) + self.bar + self.tail
    }
}

/// The horizontal position of an offset.
pub(super) fn x(offset: u64, longest: u64) -> f64 {
    LEFT as f64 + offset as f64 / longest as f64 * CELLS as f64
}
