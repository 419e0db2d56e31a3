//! The rows that a terminal shows after the output of a command. The crate vt100 interprets it.

use std::num::NonZero;
use vt100::{Cell, Color, Parser, Screen};

/// The columns of the terminal.
pub(crate) const COLUMNS: u16 = 80;
/// The rows of the terminal.
pub(crate) const ROWS: u16 = 24;
/// Both, as vt100 takes them.
const SIZE: (NonZero<u16>, NonZero<u16>) = (NonZero::new(ROWS).unwrap(), NonZero::new(COLUMNS).unwrap());

/// How cells look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) color: Color,
    pub(crate) ground: Color,
    pub(crate) is_bold: bool,
    pub(crate) is_dim: bool,
}

impl Look {
    fn of(cell: &Cell) -> Look {
        Look { color: cell.fgcolor(), ground: cell.bgcolor(), is_bold: cell.bold(), is_dim: cell.dim() }
    }
}

/// Adjacent cells of one row that look the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) column: usize,
    pub(crate) text: String,
    pub(crate) look: Look,
}

impl Span {
    /// Its columns. No character in the pictures is wider than one.
    pub(crate) fn columns(&self) -> usize {
        self.text.chars().count()
    }

    /// Its parts between two blanks or more, which keep their columns with any font.
    pub(crate) fn parts(&self) -> Vec<Span> {
        let (mut parts, mut column) = (Vec::new(), self.column);
        for part in self.text.split("  ") {
            let text = part.trim_start();
            let blanks = part.len() - text.len();
            if !text.trim_end().is_empty() {
                parts.push(Span { column: column + blanks, text: text.trim_end().to_owned(), look: self.look });
            }
            column += part.chars().count() + 2;
        }
        parts
    }
}

/// The rows of the terminal after this output, up to the last one with text.
pub(crate) fn rows(output: &str) -> Vec<Vec<Span>> {
    let mut parser = Parser::new(SIZE.0, SIZE.1, 0);
    parser.process(output.as_bytes());
    let mut rows: Vec<_> = (0..ROWS).map(|row| spans(parser.screen(), row)).collect();
    let is_blank = |spans: &Vec<Span>| spans.iter().all(|span| span.parts().is_empty());
    while rows.last().is_some_and(is_blank) {
        rows.pop();
    }
    rows
}

fn spans(screen: &Screen, row: u16) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for column in 0..COLUMNS {
        let Some(cell) = screen.cell(row, column) else { continue };
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let look = Look::of(cell);
        match spans.last_mut() {
            Some(span) if span.look == look => span.text.push_str(text),
            _ => spans.push(Span { column: usize::from(column), text: text.to_owned(), look }),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_end_where_the_look_changes() {
        let rows = rows("a\x1b[1;33mM\x1b[0m b\r\n\r\n\x1b[48;5;75mA \x1b[0m\r\n\r\n");
        assert_eq!(rows.len(), 3, "the last row with text is the third");
        let texts: Vec<_> = rows[0].iter().map(|span| (span.column, span.text.trim_end())).collect();
        assert_eq!(texts, [(0, "a"), (1, "M"), (2, " b")]);
        assert_eq!(rows[0][1].look, Look { color: Color::Idx(3), is_bold: true, ..Look::default() });
        assert_eq!((rows[2][0].text.as_str(), rows[2][0].look.ground), ("A ", Color::Idx(75)));
    }

    #[test]
    fn parts_keep_their_columns() {
        let span = Span { column: 3, text: "  files   7: 7 new   ".into(), look: Look::default() };
        let parts: Vec<_> = span.parts().into_iter().map(|part| (part.column, part.text)).collect();
        assert_eq!(parts, [(5, "files".to_owned()), (13, "7: 7 new".to_owned())]);
    }
}
