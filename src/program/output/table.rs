//! Tables for people: aligned by display width, streamed, and coloured if colours are allowed.
//!
//! The first rows decide the widths. The other rows are printed as they are added, so a table of a million rows takes
//! no memory.

use super::Output;
use super::terminal::{Style, harmless, stdout_width};
use super::wrap::wrap;
use std::collections::HashMap;
use std::fmt::Write as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The number of rows that are kept back to find the widths.
const MEASURED_ROWS: usize = 500;

/// The alignment of a column.
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
    /// Whether the cell may be wrapped between words, if it is the last of its row.
    is_prose: bool,
    /// Whether the end of the text may be cut on a narrow terminal.
    is_name: bool,
    /// Whether the cell may move below its row on a narrow terminal, if it is the last of its row.
    is_path: bool,
}

impl Cell {
    /// A cell in a style. Control characters in the text are escaped.
    pub(crate) fn styled(text: &str, style: Style) -> Self {
        Cell { text: harmless(text).into_owned(), style, is_prose: false, is_name: false, is_path: false }
    }

    /// The text in its style.
    pub(crate) fn painted(&self, colours: bool) -> String {
        self.style.paint(&self.text, colours).into_owned()
    }

    /// The text without its style.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The width in columns.
    pub(crate) fn width(&self) -> usize {
        self.text.width()
    }

    /// A cell with the name of a snapshot. On a terminal it is cut if the table is too wide: its beginning is an ID
    /// too.
    pub(crate) fn name(text: &str, style: Style) -> Self {
        Cell { is_name: true, ..Cell::styled(text, style) }
    }

    /// A cell with a path, or another long text. On a terminal it moves below its row if the table is too wide.
    pub(crate) fn path(text: &str, style: Style) -> Self {
        Cell { is_path: true, ..Cell::styled(text, style) }
    }

    /// A cell with a sentence: in the last column it is wrapped to the width of the terminal.
    pub(crate) fn prose(text: &str) -> Self {
        Cell { is_prose: true, ..Cell::styled(text, Style::Plain) }
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
    /// The largest widths, once the first rows have decided them.
    most: Vec<usize>,
    waiting: Vec<Line>,
    is_flowing: bool,
    /// Whether paths are below their rows.
    is_split: bool,
}

enum Line {
    /// A cell for each column.
    Cells(Vec<Cell>),
    /// Text across all columns.
    Text(String),
}

impl<'a> Table<'a> {
    /// A table with a header, with the title and alignment of each column.
    pub(crate) fn new(output: &'a Output, columns: &[(&str, Align)]) -> Self {
        let head = columns.iter().map(|(title, _)| Cell::styled(title, Style::Bold)).collect();
        let aligns = columns.iter().map(|(_, align)| *align).collect();
        let (widths, most) = (vec![0; columns.len()], vec![usize::MAX; columns.len()]);
        Table { output, aligns, widths, most, waiting: vec![Line::Cells(head)], is_flowing: false, is_split: false }
    }

    /// Adds a row: a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.add(Line::Cells(cells));
    }

    /// Adds lines across all columns.
    pub(crate) fn text(&mut self, text: String) {
        self.add(Line::Text(text));
    }

    fn add(&mut self, line: Line) {
        self.waiting.push(line);
        if self.is_flowing || self.waiting.len() > MEASURED_ROWS {
            self.flow();
        }
    }

    /// Prints the rows that were kept back.
    pub(crate) fn finish(mut self) {
        self.flow();
    }

    fn flow(&mut self) {
        for row in &self.waiting {
            let Line::Cells(row) = row else { continue };
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let columns = if self.output.is_terminal() { stdout_width() } else { usize::MAX };
        self.widths.iter_mut().zip(&self.most).for_each(|(width, most)| *width = (*width).min(*most));
        let rows = || self.waiting.iter().filter_map(|line| if let Line::Cells(row) = line { Some(row) } else { None });
        let is_too_wide = total(&self.widths) > columns;
        self.is_split |= is_too_wide && rows().any(|row| row.last().is_some_and(|cell| cell.is_path));
        if let Some(last) = self.widths.last_mut().filter(|_| self.is_split) {
            *last = 0;
        }
        if !self.is_flowing && columns < usize::MAX {
            let has_names = |column: usize| rows().any(|row| row.get(column).is_some_and(|cell| cell.is_name));
            let names: Vec<_> = (0..self.widths.len()).map(has_names).collect();
            let whole = self.widths.clone();
            fit(&mut self.widths, &names, columns);
            if has_equal_cuts(rows(), &self.widths) {
                self.widths = whole;
            }
            for ((most, width), _) in
                self.most.iter_mut().zip(&self.widths).zip(&names).filter(|(_, is_name)| **is_name)
            {
                *most = *width;
            }
        }
        for row in std::mem::take(&mut self.waiting) {
            match row {
                Line::Cells(mut row) => {
                    let below = row.last_mut().filter(|cell| self.is_split && cell.is_path).map(std::mem::take);
                    self.output.line(&line(&row, &self.aligns, &self.widths, self.output.colours(), columns));
                    if let Some(path) = below.filter(|path| path.width() > 0) {
                        self.output.line(&format!("{:INDENT$}{}", "", path.painted(self.output.colours())));
                    }
                }
                Line::Text(text) => self.output.line(&text),
            }
        }
        self.is_flowing = true;
    }
}

/// The usual width of the name of a snapshot that pleach gives.
pub(super) const MINIMAL_NAME: usize = "2026-11-20T020000Z".len();
/// The fewest columns for the name of a snapshot: it is not cut where two snapshots of a second differ.
const SHORTEST_CUT: usize = "2026-11-20T020000Z-10".len();
/// The indentation of what moves below its row.
const INDENT: usize = 4;

/// The width of a table with these columns.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// Makes the columns of names narrower, the widest first, until the table fits.
fn fit(widths: &mut [usize], names: &[bool], columns: usize) {
    loop {
        let excess = total(widths).saturating_sub(columns);
        let widest = widths.iter_mut().zip(names).filter(|(_, is_name)| **is_name).map(|(width, _)| width).max();
        match widest {
            Some(width) if excess > 0 && *width > SHORTEST_CUT => *width -= 1,
            _ => return,
        }
    }
}

/// Whether different names look the same in columns of these widths.
fn has_equal_cuts<'r>(rows: impl Iterator<Item = &'r Vec<Cell>>, widths: &[usize]) -> bool {
    let mut names: HashMap<String, &str> = HashMap::new();
    rows.flat_map(|row| row.iter().zip(widths)).any(|(cell, width)| {
        let is_cut = cell.is_name && cell.width() > *width;
        is_cut && names.insert(cut(&cell.text, *width), &cell.text).is_some_and(|other| other != cell.text)
    })
}

/// The beginning of a text, in this many columns.
fn cut(text: &str, width: usize) -> String {
    let mut cut = String::new();
    for c in text.chars() {
        if cut.width() + c.width().unwrap_or(0) + 1 > width {
            break;
        }
        cut.push(c);
    }
    cut + "…"
}

fn line(row: &[Cell], aligns: &[Align], widths: &[usize], colours: bool, columns: usize) -> String {
    // The position where the last column begins. The last column is not padded.
    let (before, gaps) = (widths.iter().rev().skip(1).sum::<usize>(), 2 * widths.len().saturating_sub(1));
    let mut line = String::new();
    for (i, ((cell, align), width)) in row.iter().zip(aligns).zip(widths).enumerate() {
        let padding = width.saturating_sub(cell.text.width());
        if cell.is_prose && i + 1 == row.len() && before + gaps < columns / 2 {
            line.extend(std::iter::repeat_n(' ', if i == 0 { 0 } else { 2 }));
            line.push_str(&wrap(&cell.text, before + gaps, before + gaps, columns));
            continue;
        }
        let shortened = (cell.is_name && cell.width() > *width).then(|| cut(&cell.text, *width));
        let text = cell.style.paint(shortened.as_deref().unwrap_or(&cell.text), colours);
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
        assert_eq!(line(&["ä".into(), "1".into()], &aligns, &[3, 3], false, 80), "ä      1");
        assert_eq!(line(&["日本".into(), "10".into()], &aligns, &[5, 3], false, 80), "日本    10");
        assert_eq!(line(&["a\n".into(), "".into()], &aligns, &[3, 0], false, 80), "a\\n");
    }

    #[test]
    fn names_are_cut_until_the_table_fits_and_not_below_those_that_pleach_gives() {
        let mut widths = [100, 40, 2, 9];
        fit(&mut widths, &[true, true, false, false], 80);
        assert_eq!(widths, [32, 31, 2, 9]);
        fit(&mut widths, &[true, true, false, false], 40);
        assert_eq!(widths, [21, 21, 2, 9]);
        let row = [Cell::name(&"ä".repeat(40), Style::Plain), "12".into()];
        assert_eq!(line(&row, &[Align::Left; 2], &[18, 2], false, 80), format!("{}…  12", "ä".repeat(17)));
        assert_eq!(line(&row, &[Align::Left; 2], &[40, 2], false, 80), format!("{}  12", "ä".repeat(40)));
        assert_eq!(cut("日本日本", 6), "日本…");
    }

    #[test]
    fn names_that_would_look_the_same_are_not_cut() {
        let row = |name: &str| vec![Cell::name(name, Style::Plain), "12".into()];
        let rows = [row("before-the-upgrade-of-a"), row("before-the-upgrade-of-b"), row("short")];
        assert!(has_equal_cuts(rows.iter(), &[21, 2]) && !has_equal_cuts(rows.iter(), &[23, 2]));
        assert!(!has_equal_cuts(rows[..1].iter().chain(&rows[..1]), &[21, 2]), "a name equals itself");
    }

    #[test]
    fn the_width_of_a_table_includes_its_gaps() {
        assert_eq!((total(&[3, 4, 5]), total(&[7]), total(&[])), (16, 7, 0));
    }

    #[test]
    fn a_sentence_in_the_last_column_is_wrapped_below_itself() {
        let row = ["name".into(), Cell::prose("a sentence that is longer than the forty columns of this terminal")];
        let wrapped = line(&row, &[Align::Left; 2], &[6, 65], false, 40);
        assert_eq!(
            wrapped,
            "name    a sentence that is longer than\n        the forty columns of this\n        terminal"
        );
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let red = Cell::styled("a", Style::Red);
        assert_eq!(line(&[red, "b".into()], &[Align::Left; 2], &[3, 1], true, 80), "\x1b[1;31ma\x1b[0m    b");
    }
}
