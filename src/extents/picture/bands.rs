//! Bands: what joins a shared range in one row with the same range in the next row that holds it.

use super::class::Class;
use crate::extents::sharing::Holder;
use std::collections::HashSet;

/// A band between two rows, or between two places of one. Places and widths are in cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The upper row and the lower; the same one where a file shares with itself.
    pub rows: [usize; 2],
    /// Where it begins in each.
    pub starts: [f64; 2],
    /// How wide it is.
    pub width: f64,
    /// The group.
    pub class: Class,
}

/// How many bands of less than a cell are collected before they are joined.
const SMALL: usize = 200_000;

/// The bands while they are collected. Those of a cell and more cannot be more than there are cells; smaller ones are
/// put into the cell where they begin, and kept once.
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

    /// Joins the holders of a range, each with the next.
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

    /// The widest, so many at most, and how many there are beside.
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

/// Bands side by side, with the same slope and less than a cell apart, are one.
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
