//! Pictures of files: the layout of one row for each file, all to one scale, that shows where data lies and who shares
//! it. Pure: no I/O, no colours, no characters; `output` draws it in a terminal or as SVG.
//!
//! The size of a picture is bounded. [`Sketch::new`] limits the number of rows. Each row has a fixed number of cells,
//! with the bytes of each [`Class`] summed up in each. Exact spans are kept only while they are few.

mod bands;
mod cells;
mod class;
mod names;
mod scale;
mod spans;

pub(crate) use bands::Band;
pub(crate) use cells::Cell;
pub(crate) use class::{Class, GROUPS, Span};
pub(crate) use names::{Names, shorten};
pub(crate) use scale::{label, ticks};

use crate::error::Result;
use crate::extents::extent::{Extent, ExtentFlags};
use crate::extents::sharing::Sharing;
use crate::monitor::Monitor;
use bands::Bands;
use cells::Grid;
use spans::Spans;
use std::path::{Path, PathBuf};

/// The limits of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Cells in the longest row: columns of a terminal, or pixels.
    pub cells: usize,
    /// The most rows.
    pub rows: usize,
    /// A row with more spans than this has only its cells.
    pub spans: usize,
    /// The most bands; the widest are kept.
    pub bands: usize,
}

/// The data kept of files until they are drawn: 24 bytes for each extent of the first files, and less if extents of one
/// class are adjacent.
#[derive(Debug)]
pub(crate) struct Sketch {
    limit: usize,
    files: Vec<Outline>,
    total: usize,
}

#[derive(Debug)]
struct Outline {
    path: PathBuf,
    size: u64,
    runs: Vec<Span>,
}

impl Outline {
    /// The end of its row: space can be allocated behind the end of a file.
    fn end(&self) -> u64 {
        self.runs.iter().map(|run| run.end).max().unwrap_or(0).max(self.size)
    }
}

impl Sketch {
    /// A sketch of the first files, up to `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Sketch { limit, files: Vec::new(), total: 0 }
    }

    /// Begins a file. Files must be begun in the same order as in the holdings.
    pub(crate) fn begin(&mut self, path: &Path, size: u64) {
        self.total += 1;
        if self.total <= self.limit {
            self.files.push(Outline { path: path.to_path_buf(), size, runs: Vec::new() });
        }
    }

    /// Removes the file begun last.
    pub(crate) fn withdraw_last(&mut self) {
        if self.total <= self.limit {
            self.files.pop();
        }
        self.total = self.total.saturating_sub(1);
    }

    /// Adds an extent to the file begun last.
    pub(crate) fn add(&mut self, extent: &Extent) {
        let file = self.files.last_mut().filter(|_| self.total <= self.limit);
        let (Some(file), true) = (file, extent.length > 0) else { return };
        let class = match extent.flags {
            flags if flags.contains(ExtentFlags::DATA_INLINE) => Class::Inline,
            _ if extent.physical.is_none() => Class::Unplaced,
            flags if flags.contains(ExtentFlags::UNWRITTEN) => Class::Unwritten,
            _ => Class::Data,
        };
        let run = Span { start: extent.logical, end: extent.logical_end(), class };
        match file.runs.last_mut() {
            Some(last) if last.class == class && last.end == run.start => last.end = run.end,
            _ => file.runs.push(run),
        }
    }
}

/// A picture, ready to be drawn.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The rows, in the order of the files.
    pub rows: Vec<Row>,
    /// The bytes that the longest row represents: at least one.
    pub longest: u64,
    /// The bands that connect the rows, the widest first.
    pub bands: Vec<Band>,
    /// The number of bands over the limit.
    pub omitted_bands: usize,
    /// The number of files over the limit.
    pub omitted_rows: usize,
}

/// A file in the picture.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its path.
    pub path: PathBuf,
    /// Its apparent size.
    pub size: u64,
    /// The cells from its beginning to its end. Only the longest file fills the width of the picture.
    pub cells: Vec<Cell>,
    /// The same exactly, without gaps, if there are few enough spans.
    pub spans: Option<Vec<Span>>,
}

impl Layout {
    /// Whether anything of this class is in the picture.
    pub(crate) fn shows(&self, class: Class) -> bool {
        self.rows.iter().any(|row| row.cells.iter().any(|cell| cell.bytes(class) > 0))
    }
}

/// Lays out the picture of a sketch. Its files must be those of `sharing`.
///
/// # Errors
/// Only if the monitor asks to stop.
pub(crate) fn lay_out(sketch: &Sketch, sharing: &Sharing, options: &Options, monitor: &dyn Monitor) -> Result<Layout> {
    let files = &sketch.files[..sketch.files.len().min(options.rows)];
    let longest = files.iter().map(Outline::end).max().unwrap_or(0).max(1);
    let cells = options.cells.max(1);
    let mut grids: Vec<_> = files.iter().map(|file| Grid::new(file.end(), longest, cells)).collect();
    let mut spans: Vec<_> = files.iter().map(|file| Spans::new(&file.runs, options.spans)).collect();
    let mut bands = Bands::new(longest, cells, options.bands > 0);
    for (grid, file) in grids.iter_mut().zip(files) {
        file.runs.iter().for_each(|run| grid.add(run));
    }
    let each = |range: &crate::extents::sharing::Range<'_>| {
        let class = Class::of_group(range.group);
        for holder in range.holders {
            let row = holder.file.index();
            let span = Span { start: holder.logical, end: holder.logical.saturating_add(holder.length), class };
            grids[row].replace(&span, if holder.is_unwritten { Class::Unwritten } else { Class::Data });
            spans[row].put(span);
        }
        bands.add(range.holders, class);
    };
    sharing.ranges_of_first(files.len() as u32, each, monitor)?;
    let rows = files.iter().zip(grids).zip(spans).map(|((file, grid), spans)| Row {
        path: file.path.clone(),
        size: file.size,
        cells: grid.finish(),
        spans: spans.finish(&file.runs, file.end()),
    });
    let rows = rows.collect();
    let (bands, omitted_bands) = bands.finish(options.bands);
    Ok(Layout { rows, longest, bands, omitted_bands, omitted_rows: sketch.total - files.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::sharing::{self, Holdings};
    use crate::fs::filesystem::Id;
    use crate::monitor::Silent;

    const MIB: u64 = 1 << 20;

    fn extent(logical: u64, physical: u64, length: u64, flags: ExtentFlags) -> Extent {
        Extent::from_kernel(logical * MIB, physical * MIB, length * MIB, flags.0)
    }

    fn data(logical: u64, physical: u64, length: u64) -> Extent {
        extent(logical, physical, length, ExtentFlags::default())
    }

    fn laid_out(files: &[(u64, Vec<Extent>)], options: &Options) -> Layout {
        let mut sketch = Sketch::new(100);
        let mut holdings = Holdings::default();
        for (n, (size, extents)) in files.iter().enumerate() {
            let file = holdings.begin(Some(Id::Device(1).into()));
            sketch.begin(Path::new(&format!("/d/{n}")), size * MIB);
            for extent in extents {
                holdings.add(file, extent);
                sketch.add(extent);
            }
        }
        let sharing = sharing::find(holdings, &sharing::Options::default(), &Silent).unwrap();
        lay_out(&sketch, &sharing, options, &Silent).unwrap()
    }

    const OPTIONS: Options = Options { cells: 8, rows: 100, spans: 100, bands: 100 };

    fn drawn(row: &Row) -> Vec<(u64, u64, Class)> {
        row.spans.iter().flatten().map(|span| (span.start / MIB, span.end / MIB, span.class)).collect()
    }

    #[test]
    fn rows_are_to_one_scale_and_shared_ranges_are_joined() {
        let reserved = extent(6, 300, 2, ExtentFlags::UNWRITTEN);
        let layout =
            laid_out(&[(8, vec![data(0, 100, 4), reserved]), (4, vec![data(0, 200, 1), data(1, 101, 2)])], &OPTIONS);
        assert_eq!(layout.longest, 8 * MIB);
        assert_eq!([layout.rows[0].cells.len(), layout.rows[1].cells.len()], [8, 4]);
        let a = Class::of_group(0);
        assert_eq!(
            drawn(&layout.rows[0]),
            [(0, 1, Class::Data), (1, 3, a), (3, 4, Class::Data), (4, 6, Class::Hole), (6, 8, Class::Unwritten)]
        );
        assert_eq!(drawn(&layout.rows[1]), [(0, 1, Class::Data), (1, 3, a), (3, 4, Class::Hole)]);
        let cells: Vec<_> = layout.rows[0].cells.iter().map(Cell::main).collect();
        assert_eq!(
            cells,
            [Class::Data, a, a, Class::Data, Class::Hole, Class::Hole, Class::Unwritten, Class::Unwritten]
                .map(|class| Some((class, true)))
        );
        assert_eq!(layout.bands, [Band { rows: [0, 1], starts: [1.0, 1.0], width: 2.0, class: a }]);
        assert!(layout.shows(Class::Unwritten) && !layout.shows(Class::Inline));
    }

    #[test]
    fn a_cell_tells_whether_it_holds_more_than_one_class() {
        let layout = laid_out(
            &[(64, vec![data(0, 0, 9)]), (64, vec![data(0, 0, 8), data(16, 100, 6), data(24, 200, 1)])],
            &OPTIONS,
        );
        let main: Vec<_> = layout.rows[1].cells.iter().map(|cell| cell.main().unwrap()).collect();
        let a = Class::of_group(0);
        assert_eq!(main[..4], [(a, true), (Class::Hole, true), (Class::Data, false), (Class::Hole, false)]);
        assert_eq!(layout.rows[1].cells[2].bytes(Class::Hole), 2 * MIB);
    }

    #[test]
    fn many_spans_leave_the_cells_and_many_bands_the_widest() {
        let blocks = |at: u64| (0..500).map(|n| data(n * 2, at + n * 2, 1)).collect::<Vec<_>>();
        let options = Options { bands: 1, ..OPTIONS };
        let layout = laid_out(&[(1000, blocks(0)), (1000, blocks(0)), (1000, vec![data(0, 400, 1)])], &options);
        assert!(layout.rows[0].spans.is_none() && layout.rows[2].spans.is_some());
        assert_eq!(layout.rows[0].cells[7].main(), Some((Class::of_group(0), false)));
        assert_eq!((layout.bands.len(), layout.omitted_bands), (1, 2));
        assert_eq!(layout.bands[0].rows, [0, 1]);
        assert!(layout.bands[0].width > 7.0, "ranges that are less than a cell apart are one band: {:?}", layout.bands);
    }

    #[test]
    fn files_that_are_too_many_are_counted() {
        let files: Vec<_> = (0..5).map(|n| (1, vec![data(0, n, 1)])).collect();
        let layout = laid_out(&files, &Options { rows: 3, ..OPTIONS });
        assert_eq!((layout.rows.len(), layout.omitted_rows), (3, 2));
    }

    #[test]
    fn files_of_no_size_and_without_a_place_have_their_rows() {
        let inline = Extent::from_kernel(0, 0, 100, ExtentFlags::DATA_INLINE.0);
        let layout =
            laid_out(&[(0, vec![]), (0, vec![inline]), (1, vec![extent(0, 0, 1, ExtentFlags::DELALLOC)])], &OPTIONS);
        assert!(layout.rows[0].cells.is_empty());
        assert_eq!(layout.rows[1].cells[0].main(), Some((Class::Inline, true)));
        assert_eq!(layout.rows[2].cells[0].main(), Some((Class::Unplaced, true)));
        let layout = laid_out(&[(0, vec![])], &OPTIONS);
        assert_eq!(layout.longest, 1);
    }

    #[test]
    fn what_lies_behind_the_end_of_a_file_is_drawn_too() {
        let layout = laid_out(&[(1, vec![data(0, 0, 1), extent(1, 1, 7, ExtentFlags::UNWRITTEN)])], &OPTIONS);
        assert_eq!(layout.longest, 8 * MIB);
        assert_eq!(layout.rows[0].cells.len(), 8);
    }
}
