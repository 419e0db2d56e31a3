//! Lines by the million: built in one buffer, number by number, without an allocation or a formatter for each line.

use super::Output;

/// The number of bytes to gather before writing them: the size of stdout's own buffer, so that they bypass it.
const FULL: usize = 64 << 10;

/// A buffer for text on its way to stdout. Dropping it writes the rest.
pub(super) struct Lines<'a> {
    output: &'a Output,
    bytes: Vec<u8>,
}

impl<'a> Lines<'a> {
    /// An empty buffer.
    pub(super) fn new(output: &'a Output) -> Self {
        Lines { output, bytes: Vec::new() }
    }

    /// The output to which the text goes.
    pub(super) fn output(&self) -> &'a Output {
        self.output
    }

    /// Adds text unchanged.
    pub(super) fn text(&mut self, text: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(text.as_ref());
    }

    /// Adds this number of spaces.
    pub(super) fn spaces(&mut self, number: usize) {
        self.bytes.resize(self.bytes.len() + number, b' ');
    }

    /// Adds a number.
    pub(super) fn number(&mut self, number: u64) {
        self.text(itoa::Buffer::new().format(number));
    }

    /// Adds a number, right-aligned in `width` columns, as `%*llu` does.
    pub(super) fn number_right(&mut self, number: u64, width: usize) {
        self.right(itoa::Buffer::new().format(number), width);
    }

    /// Adds a number with separated thousands, right-aligned in `width` columns.
    pub(super) fn count_right(&mut self, number: u64, width: usize) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(number).as_bytes();
        self.spaces(width.saturating_sub(count_width(number)));
        let (first, rest) = digits.split_at((digits.len() - 1) % 3 + 1);
        self.text(first);
        for group in rest.chunks(3) {
            self.bytes.push(b',');
            self.text(group);
        }
    }

    /// Adds text, right-aligned in `width` columns, as `%*s` does.
    pub(super) fn right(&mut self, text: impl AsRef<[u8]>, width: usize) {
        let text = text.as_ref();
        self.spaces(width.saturating_sub(text.len()));
        self.text(text);
    }

    /// The number of bytes in the buffer.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Pads the text added since `length` to `width` columns, as `%-*s` does.
    pub(super) fn pad_since(&mut self, length: usize, width: usize) {
        self.spaces((length + width).saturating_sub(self.bytes.len()));
    }

    /// Ends a line.
    pub(super) fn end(&mut self) {
        self.bytes.push(b'\n');
        if self.bytes.len() >= FULL {
            self.hand_on();
        }
    }

    /// Writes the buffer to the output.
    pub(super) fn hand_on(&mut self) {
        if !self.bytes.is_empty() {
            self.output.text(&self.bytes);
            self.bytes.clear();
        }
    }
}

impl Drop for Lines<'_> {
    fn drop(&mut self) {
        self.hand_on();
    }
}

/// The columns that a number takes with separated thousands.
pub(super) fn count_width(number: u64) -> usize {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    digits + (digits - 1) / 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::output::Settings;
    use std::sync::Arc;

    #[test]
    fn numbers_stand_at_the_right_with_their_thousands_apart() {
        let output = Output::new(Settings::default(), Arc::default());
        let mut lines = Lines::new(&output);
        for number in [0, 999, 1000, 1_234_567, u64::MAX] {
            let before = lines.length();
            lines.count_right(number, 0);
            let written = String::from_utf8(lines.bytes[before..].to_vec()).unwrap();
            assert_eq!(written, crate::util::text::count(number));
            assert_eq!(written.len(), count_width(number));
        }
        lines.bytes.clear();
        lines.count_right(1000, 7);
        lines.number_right(5, 3);
        let from = lines.length();
        lines.text("[0]");
        lines.pad_since(from, 5);
        assert_eq!(lines.bytes, b"  1,000  5[0]  ");
        lines.bytes.clear();
    }
}
