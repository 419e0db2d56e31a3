//! The terminal as indicatif sees it: a few columns narrower than it is.
//!
//! indicatif fills its line to the last column. A `^C` that the terminal echoes would therefore begin a new line, and
//! the old line would stay for good. With some room at the end, both are cleared together.

use super::terminal;
use indicatif::TermLike;
use std::io::{self, Write as _};

/// Columns left free: two for `^C`, and one for the cursor.
const MARGIN: usize = 3;

/// The maximal width of a progress line.
pub(super) fn width() -> usize {
    terminal::width().saturating_sub(MARGIN).max(1)
}

/// Standard error, reported as narrower than it is.
#[derive(Debug)]
pub(super) struct Margin;

impl Margin {
    fn write(&self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        io::stderr().lock().write_fmt(text)
    }

    /// Writes a cursor movement of ECMA-48. For these movements 0 does not mean "no movement", so 0 steps write
    /// nothing.
    fn step(&self, steps: usize, letter: char) -> io::Result<()> {
        if steps == 0 { Ok(()) } else { self.write(format_args!("\x1b[{steps}{letter}")) }
    }
}

impl TermLike for Margin {
    fn width(&self) -> u16 {
        u16::try_from(width()).unwrap_or(u16::MAX)
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.step(lines, 'A')
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.step(lines, 'B')
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.step(columns, 'C')
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.step(columns, 'D')
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.write(format_args!("{line}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.write(format_args!("{text}"))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write(format_args!("\r\x1b[2K"))
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}
