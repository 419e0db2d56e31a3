//! Wraps text for terminals: lines end between words, and continuation lines are indented.

use unicode_width::UnicodeWidthStr as _;

/// Lines for narrower terminals are not wrapped: one word per line would be harder to read.
const NARROWEST: usize = 40;

/// Wraps one line of text to `width` columns. The first line begins in column `first`, the others after `indent`
/// spaces. A word that is longer than a line is not broken.
pub(super) fn wrap(text: &str, first: usize, indent: usize, width: usize) -> String {
    if width < NARROWEST || first + text.width() <= width {
        return text.to_string();
    }
    let mut wrapped = String::with_capacity(text.len() + 64);
    let mut column = first;
    let mut is_line_empty = true;
    for word in text.split(' ') {
        let length = word.width();
        if !is_line_empty && column + 1 + length > width {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            (column, is_line_empty) = (indent, true);
            if word.is_empty() {
                continue;
            }
        }
        if !is_line_empty {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
        is_line_empty = false;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        let text = "cannot open /srv/data/file: Permission denied (run as root)";
        assert_eq!(wrap(text, 8, 8, 80), text);
        assert_eq!(wrap(text, 8, 8, 45), "cannot open /srv/data/file:\n        Permission denied (run as root)");
        assert_eq!(wrap("a  b", 0, 2, 80), "a  b", "spaces stay");
    }

    #[test]
    fn a_long_word_stays_whole_and_narrow_terminals_get_the_text_as_it_is() {
        let path = "x".repeat(60);
        assert_eq!(wrap(&format!("open {path} now"), 0, 2, 40), format!("open\n  {path}\n  now"));
        assert_eq!(wrap("one two three four", 0, 2, 10), "one two three four");
    }
}
