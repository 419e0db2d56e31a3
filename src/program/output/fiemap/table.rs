//! Extents for people: a table for each file, holes among its rows, lengths in human-readable units.
//!
//! The first rows are held back to find the widths of the columns. For a file with more rows, the columns are wide
//! enough for the largest number that its filesystem can hold, so they stay aligned to the end.

use super::listing::{Total, has};
use crate::error::Result;
use crate::extents::extent::{ExtentFlags, Reported};
use crate::fiemap::{File, Stats};
use crate::program::output::lines::{Lines, count_width};
use crate::program::output::terminal::Style;
use crate::util::text::{self, counted};

/// The number of rows that are held back.
const HELD: usize = 500;

/// The flags in words, in the order in which a reader wants them.
const WORDS: [(ExtentFlags, &str); 11] = [
    (ExtentFlags::SHARED, "shared"),
    (ExtentFlags::UNWRITTEN, "unwritten"),
    (ExtentFlags::DATA_INLINE, "inline"),
    (ExtentFlags::DELALLOC, "not yet on disk"),
    (ExtentFlags::UNKNOWN, "no known place"),
    (ExtentFlags::ENCODED, "compressed or encoded"),
    (ExtentFlags::DATA_ENCRYPTED, "encrypted"),
    (ExtentFlags::DATA_TAIL, "in a packed tail"),
    (ExtentFlags::NOT_ALIGNED, "not aligned"),
    (ExtentFlags::MERGED, "merged"),
    (ExtentFlags::LAST, "last"),
];

/// The tables of all files.
pub(super) struct Tables<'a> {
    lines: Lines<'a>,
    held: Vec<Row>,
    widths: Option<Widths>,
    /// Whether the file's own line has been written.
    is_begun: bool,
    head: String,
    /// The widths of the largest position on the present filesystem and of the largest offset in the present file.
    bounds: Widths,
    /// The file has been listed up to this offset.
    listed: u64,
    /// The last length that was written, and its text: many rows have the same length.
    length: (u64, String),
}

#[derive(Clone, Copy)]
enum Row {
    Extent(Reported),
    Hole { start: u64, length: u64 },
}

#[derive(Clone, Copy, Default)]
struct Widths {
    logical: usize,
    physical: usize,
}

const LENGTH: usize = "1023.9 MiB".len();

impl<'a> Tables<'a> {
    pub(super) fn new(lines: Lines<'a>) -> Self {
        Tables {
            lines,
            held: Vec::with_capacity(HELD),
            widths: None,
            is_begun: false,
            head: String::new(),
            bounds: Widths::default(),
            listed: 0,
            length: (0, text::size(0)),
        }
    }

    fn add(&mut self, row: Row) {
        if self.widths.is_some() {
            return self.row(row);
        }
        self.held.push(row);
        if self.held.len() == HELD {
            self.settle(self.bounds);
        }
    }

    /// Writes the rows that were held back, in columns of at least these widths.
    fn settle(&mut self, least: Widths) {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.lines.output().gap();
            let head = std::mem::take(&mut self.head);
            self.styled(Style::Bold, &head);
            self.lines.end();
        }
        if self.held.is_empty() {
            return;
        }
        let mut widths =
            Widths { logical: least.logical.max("logical".len()), physical: least.physical.max("physical".len()) };
        for row in &self.held {
            let (logical, physical) = match row {
                Row::Extent(report) => (report.logical, report.extent().physical.map_or(1, count_width)),
                Row::Hole { start, .. } => (*start, "hole".len()),
            };
            widths.logical = widths.logical.max(count_width(logical));
            widths.physical = widths.physical.max(physical);
        }
        self.widths = Some(widths);
        let columns = [("logical", widths.logical), ("physical", widths.physical), ("length", LENGTH)];
        for (i, (title, width)) in columns.into_iter().enumerate() {
            self.lines.spaces(if i == 0 { 0 } else { 2 } + width - title.len());
            self.styled(Style::Bold, title);
        }
        self.lines.spaces(2);
        self.styled(Style::Bold, "flags");
        self.lines.end();
        let mut held = std::mem::take(&mut self.held);
        held.drain(..).for_each(|row| self.row(row));
        self.held = held;
    }

    fn row(&mut self, row: Row) {
        let widths = self.widths.unwrap_or_default();
        match row {
            Row::Extent(report) => {
                self.lines.count_right(report.logical, widths.logical);
                self.lines.spaces(2);
                match report.extent().physical {
                    Some(physical) => self.lines.count_right(physical, widths.physical),
                    None => {
                        self.lines.spaces(widths.physical - 1);
                        self.styled(Style::Dim, "-");
                    }
                }
                self.lines.spaces(2);
                self.length(report.length, Style::Plain);
                self.flags(&report);
            }
            Row::Hole { start, length } => {
                let dim = self.begin(Style::Dim);
                self.lines.count_right(start, widths.logical);
                self.lines.spaces(2);
                self.lines.right("hole", widths.physical);
                self.lines.spaces(2);
                self.end(dim);
                self.length(length, Style::Dim);
            }
        }
        self.lines.end();
    }

    fn length(&mut self, bytes: u64, style: Style) {
        if self.length.0 != bytes {
            self.length = (bytes, text::size(bytes));
        }
        self.lines.spaces(LENGTH.saturating_sub(self.length.1.len()));
        let styled = self.begin(style);
        self.lines.text(&self.length.1);
        self.end(styled);
    }

    fn flags(&mut self, report: &Reported) {
        let style = if report.extent().is_shared() { Style::Green } else { Style::Plain };
        let mut before = "";
        let mut styled = false;
        for (flag, word) in WORDS {
            if has(report, flag) {
                if before.is_empty() {
                    self.lines.spaces(2);
                    styled = self.begin(style);
                }
                self.lines.text(before);
                self.lines.text(word);
                before = ", ";
            }
        }
        self.end(styled);
    }

    fn hole(&mut self, end: u64) {
        if self.listed < end {
            self.add(Row::Hole { start: self.listed, length: end - self.listed });
        }
    }

    fn styled(&mut self, style: Style, text: &str) {
        self.lines.text(style.paint(text, self.lines.output().colours()).as_bytes());
    }

    /// Begins a style; returns whether there is one to end.
    fn begin(&mut self, style: Style) -> bool {
        let code = style.code().filter(|_| self.lines.output().colours());
        if let Some(code) = code {
            self.lines.text("\x1b[");
            self.lines.text(code);
            self.lines.text("m");
        }
        code.is_some()
    }

    fn end(&mut self, is_styled: bool) {
        if is_styled {
            self.lines.text("\x1b[0m");
        }
    }
}

impl super::listing::ExtentListing for Tables<'_> {
    fn begin(&mut self, file: &File) -> Result<()> {
        let size = file.size();
        self.head = format!("{}: {} ({})", text::path(file.path()), counted(size, "byte"), text::size(size));
        self.is_begun = false;
        self.held.clear();
        self.widths = None;
        self.listed = 0;
        // Only the alignment depends on this value.
        let most = file.place().map_or(0, |place| place.blocks.saturating_mul(place.statfs_block));
        self.bounds = Widths { logical: count_width(size), physical: count_width(most) };
        Ok(())
    }

    fn extent(&mut self, extent: &Reported) {
        self.hole(extent.logical);
        self.listed = self.listed.max(extent.logical_end());
        self.add(Row::Extent(*extent));
    }

    fn end(&mut self, file: &File, stats: &Stats) -> Result<()> {
        // The current size: a file truncated meanwhile does not end in a hole.
        self.hole(file.size_now()?);
        self.settle(Widths::default());
        let shared = text::size(stats.shared_bytes);
        self.lines.text(format!("{}, {shared} shared", counted(stats.extents, "extent")));
        self.lines.end();
        self.lines.hand_on();
        Ok(())
    }

    fn break_off(&mut self) {
        if !self.held.is_empty() {
            self.settle(Widths::default());
        }
        self.lines.hand_on();
    }

    fn summarize(&mut self, total: &Total) {
        let output = self.lines.output();
        if total.files > 1 && !output.is_quiet() {
            let (files, extents) = (counted(total.files, "file"), counted(total.extents, "extent"));
            output.gap();
            output.line(&format!("{files}, {extents}, {} shared", text::size(total.shared_bytes)));
        }
    }
}
