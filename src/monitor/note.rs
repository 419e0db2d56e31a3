//! A problem or damage of a run, as a bounded text that can be recorded.

use super::damage::Damage;
use crate::error::Error;
use crate::util::text;

/// How many problems, and how much damage, are kept.
pub(crate) const MOST: usize = 100;
/// How long a kept text is, in bytes. A longer one is cut.
pub(crate) const LONGEST: usize = 1000;

/// A problem or damage of a run, in a form that can be recorded. It contains names from outside: escape it for whatever
/// shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Note {
    /// The word by which programs recognize the problem, as [`Error::code`]; for damage the name of the
    /// [`Fault`](super::Fault).
    pub code: String,
    /// What happened, in one line, without advice. For damage: the snapshot and the path.
    pub message: String,
}

impl Note {
    /// A note. Line breaks and other control characters in the message become escapes, and a long message is cut.
    pub(crate) fn new(code: &str, message: &str) -> Note {
        let mut line = String::new();
        for c in message.chars() {
            let shown = if text::is_unprintable(c) { text::escape_char(c) } else { c.to_string() };
            if line.len() + shown.len() > LONGEST {
                line.push('…');
                break;
            }
            line += &shown;
        }
        Note { code: code.to_string(), message: line }
    }

    /// The note of a problem.
    pub(crate) fn of_error(error: &Error) -> Note {
        Note::new(error.code(), &error.to_string())
    }

    /// The note of damage.
    pub(crate) fn of_damage(damage: &Damage<'_>) -> Note {
        Note::new(damage.why.name(), &format!("{}: {}", damage.snapshot, text::path(damage.path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_one_line_of_bounded_length() {
        assert_eq!(Note::new("a", "b\n\u{202e}\x1b").message, "b\\n\\u{202e}\\x1b");
        let long = Note::new("a", &"ä\u{1}".repeat(5000)).message;
        assert!(long.len() <= LONGEST + 3 && long.ends_with('…'), "{}", long.len());
    }
}
