//! Bands: the connections between a shared range in one row and the same range in the next row that holds it.

use super::class::Class;
use crate::extents::sharing::Holder;
use std::collections::HashSet;

/// A band between two rows, or between two places in one row. Places and widths are in cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Band {
    /// The upper row and the lower row; the same row twice if a file shares with itself.
    pub rows: [usize; 2],
    /// Where it begins in each row.
    pub starts: [f64; 2],
    /// How wide it is.
    pub width: f64,
    /// The group.
    pub class: Class,
}

/// The most bands narrower than a cell that are collected before they are joined.
const SMALL: usize = 200_000;

/// The bands while they are collected. Bands of at least one cell are limited by the number of cells. A smaller band is
/// assigned to the cell in which it begins, and kept once.
pub(super) struct Bands {
    cells_a_byte: f64,
    wanted: bool,
    wide: Vec<Band>,
    small: HashSet<([u32; 4], Class)>,
    dropped: usize,
}

impl Bands {
    pub(super) fn new(longest: u64, cells: usize, wanted: bool) -> Self {
        let cells_a_byte = cells as f64 / longest as f64;
        Bands { cells_a_byte, wanted, wide: Vec::new(), small: HashSet::new(), dropped: 0 }
    }

    /// Connects each holder of a range with the next.
    pub(super) fn add(&mut self, holders: &[Holder], class: Class) {
        if !self.wanted {
            return;
        }
        for pair in holders.windows(2) {
            let rows = [pair[0].file.index(), pair[1].file.index()];
            let starts = [pair[0].logical, pair[1].logical].map(|start| start as f64 * self.cells_a_byte);
            let width = pair[0].length.min(pair[1].length) as f64 * self.cells_a_byte;
            if width >= 1.0 {
                self.wide.push(Band { rows, starts, width, class });
            } else if self.small.len() < SMALL {
                let [a, b] = starts.map(|start| start as u32);
                self.small.insert(([rows[0] as u32, rows[1] as u32, a, b], class));
            } else {
                self.dropped += 1;
            }
        }
    }

    /// The widest bands, up to `limit`, and the number of the others.
    pub(super) fn finish(self, limit: usize) -> (Vec<Band>, usize) {
        let small = self.small.into_iter().map(|([a, b, start, end], class)| Band {
            rows: [a as usize, b as usize],
            starts: [f64::from(start), f64::from(end)],
            width: 1.0,
            class,
        });
        let mut bands = joined(self.wide.into_iter().chain(small).collect());
        bands.sort_by(|a, b| b.width.total_cmp(&a.width));
        let omitted = self.dropped + bands.len().saturating_sub(limit);
        bands.truncate(limit);
        (bands, omitted)
    }
}

/// Adjacent bands with the same slope, less than a cell apart, become one.
fn joined(mut bands: Vec<Band>) -> Vec<Band> {
    let slope = |band: &Band| (band.starts[1] - band.starts[0]).round() as i64;
    bands.sort_by(|a, b| {
        let key = |band: &Band| (band.rows, band.class, slope(band));
        key(a).cmp(&key(b)).then(a.starts[0].total_cmp(&b.starts[0]))
    });
    let mut joined: Vec<Band> = Vec::new();
    for band in bands {
        match joined.last_mut() {
            Some(last)
                if (last.rows, last.class, slope(last)) == (band.rows, band.class, slope(&band))
                    && band.starts[0] <= last.starts[0] + last.width + 1.0 =>
            {
                last.width = last.width.max(band.starts[0] + band.width - last.starts[0]);
            }
            _ => joined.push(band),
        }
    }
    joined
}
