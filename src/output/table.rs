//! Tables for people: aligned by display width, streamed, coloured where colours are allowed.
//!
//! The first rows decide the widths; the rest is printed as it comes, so that a table of a million rows takes no memory.

use super::Output;
use super::terminal::{Style, harmless};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr as _;

/// The rows that are kept back to find the widths.
const MEASURED_ROWS: usize = 500;

/// On which side a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a style. Control characters in it are escaped.
    pub(crate) fn styled(text: &str, style: Style) -> Self {
        Cell { text: harmless(text).into_owned(), style }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::styled(text.as_ref(), Style::Plain)
    }
}

/// A table that is being printed.
pub(crate) struct Table<'a> {
    output: &'a Output,
    aligns: Vec<Align>,
    widths: Vec<usize>,
    waiting: Vec<Vec<Cell>>,
    is_flowing: bool,
}

impl<'a> Table<'a> {
    /// A table with a head, each column with its title and alignment.
    pub(crate) fn new(output: &'a Output, columns: &[(&str, Align)]) -> Self {
        let head = columns.iter().map(|(title, _)| Cell::styled(title, Style::Bold)).collect();
        let aligns = columns.iter().map(|(_, align)| *align).collect();
        Table { output, aligns, widths: vec![0; columns.len()], waiting: vec![head], is_flowing: false }
    }

    /// Adds a row: a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.waiting.push(cells);
        if self.is_flowing || self.waiting.len() > MEASURED_ROWS {
            self.flow();
        }
    }

    /// Prints what was kept back.
    pub(crate) fn finish(mut self) {
        self.flow();
    }

    fn flow(&mut self) {
        for row in &self.waiting {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        for row in std::mem::take(&mut self.waiting) {
            self.output.line(&line(&row, &self.aligns, &self.widths, self.output.colours()));
        }
        self.is_flowing = true;
    }
}

fn line(row: &[Cell], aligns: &[Align], widths: &[usize], colours: bool) -> String {
    let mut line = String::new();
    for (i, ((cell, align), width)) in row.iter().zip(aligns).zip(widths).enumerate() {
        let padding = width.saturating_sub(cell.text.width());
        let text = cell.style.paint(&cell.text, colours);
        let gap = if i == 0 { "" } else { "  " };
        let _ = match align {
            Align::Right => write!(line, "{gap}{:padding$}{text}", ""),
            Align::Left => write!(line, "{gap}{text}{:padding$}", ""),
        };
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_align_by_what_they_show_and_not_by_bytes() {
        let aligns = [Align::Left, Align::Right];
        assert_eq!(line(&["ä".into(), "1".into()], &aligns, &[3, 3], false), "ä      1");
        assert_eq!(line(&["日本".into(), "10".into()], &aligns, &[5, 3], false), "日本    10");
        assert_eq!(line(&["a\n".into(), "".into()], &aligns, &[3, 0], false), "a\\n");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let red = Cell::styled("a", Style::Red);
        assert_eq!(line(&[red, "b".into()], &[Align::Left; 2], &[3, 1], true), "\x1b[1;31ma\x1b[0m    b");
    }
}
