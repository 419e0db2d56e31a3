//! Reads the keys of a table with their places in the text. Each key that is asked for is a known key; all others are
//! refused in the end. Mistakes are collected, so that one run reports all of them.

use super::nearest::nearest;
use std::cell::RefCell;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most mistakes in the syntax that are reported: one often causes others.
const MOST: usize = 10;

/// A value and its place.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;
/// A value that was read, or the mistakes in it.
pub(super) type Read<T> = Result<T, Vec<Problem>>;

/// A mistake in a profile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    /// Its place in the text, in bytes.
    pub(super) at: Range<usize>,
    pub(super) message: String,
}

/// The mistakes and the known keys of all sections.
#[derive(Debug, Default)]
pub(super) struct Reader {
    problems: RefCell<Vec<Problem>>,
    known: RefCell<Vec<(&'static str, &'static str)>>,
}

impl Reader {
    /// The mistakes, in the order of the text.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.at.start);
        problems
    }

    /// All known keys, with their sections.
    #[cfg(test)]
    pub(super) fn known(&self) -> Vec<(&'static str, &'static str)> {
        self.known.borrow().clone()
    }
}

/// The keys of one table.
pub(super) struct Fields<'t> {
    reader: &'t Reader,
    /// The section's name; empty before the first section.
    section: &'static str,
    table: &'t DeTable<'t>,
    /// The place of the section's heading.
    at: Range<usize>,
}

impl<'t> Fields<'t> {
    pub(super) fn new(
        reader: &'t Reader,
        section: &'static str,
        table: &'t DeTable<'t>,
        at: Range<usize>,
    ) -> Fields<'t> {
        Fields { reader, section, table, at }
    }

    /// Whether a key is there, with whatever value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// The value of a key that may be missing.
    pub(super) fn optional<T>(&mut self, key: &'static str, read: impl FnOnce(&'t Value<'t>) -> Read<T>) -> Option<T> {
        self.reader.known.borrow_mut().push((self.section, key));
        let value = self.value(key)?;
        read(value).map_err(|problems| self.reader.problems.borrow_mut().extend(problems)).ok()
    }

    /// The value of a key, or its default.
    pub(super) fn or<T>(&mut self, key: &'static str, default: T, read: impl FnOnce(&'t Value<'t>) -> Read<T>) -> T {
        self.optional(key, read).unwrap_or(default)
    }

    /// The value of a key that must not be missing.
    pub(super) fn required<T: Default>(&mut self, key: &'static str, read: impl FnOnce(&'t Value<'t>) -> Read<T>) -> T {
        if !self.has(key) {
            self.refuse(&format!("[{}] needs the key '{key}'", self.section));
        }
        self.optional(key, read).unwrap_or_default()
    }

    /// A section, if it is there. All its keys must be known.
    pub(super) fn section<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Fields<'t>) -> T) -> Option<T> {
        let reader = self.reader;
        self.optional(name, |value| match value.get_ref() {
            DeValue::Table(table) => {
                let mut fields = Fields::new(reader, name, table, value.span());
                let section = read(&mut fields);
                fields.finish();
                Ok(section)
            }
            other => Err(vec![Problem {
                at: value.span(),
                message: format!("expected a section [{name}], found {}", kind(other)),
            }]),
        })
    }

    /// How many mistakes were found so far, here and elsewhere.
    pub(super) fn problems(&self) -> usize {
        self.reader.problems.borrow().len()
    }

    /// Reports a mistake in the section as a whole.
    pub(super) fn refuse(&self, message: &str) {
        let problem = Problem { at: self.at.clone(), message: message.to_string() };
        self.reader.problems.borrow_mut().push(problem);
    }

    /// Reports all keys that nobody asked for.
    pub(super) fn finish(self) {
        let known = self.reader.known.borrow();
        let known = || known.iter().filter(|(section, _)| *section == self.section).map(|(_, key)| *key);
        for (key, value) in self.table.iter() {
            let name: &str = key.get_ref();
            if known().any(|known| known == name) {
                continue;
            }
            let is_section = self.section.is_empty() && matches!(value.get_ref(), DeValue::Table(_));
            let quoted = |name: &str| if is_section { format!("[{name}]") } else { format!("'{name}'") };
            let place = if self.section.is_empty() { String::new() } else { format!(" in [{}]", self.section) };
            let kind = if is_section { "section" } else { "key" };
            let help = match nearest(name, known()) {
                Some(near) => format!("did you mean {}?", quoted(near)),
                None => format!("known are {}", known().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("unknown {kind} {}{place}; {help}", quoted(name));
            self.reader.problems.borrow_mut().push(Problem { at: key.span(), message });
        }
    }

    fn value(&self, key: &str) -> Option<&'t Value<'t>> {
        self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key).map(|(_, value)| value)
    }
}

/// The top of a profile.
///
/// # Errors
/// The mistakes in the syntax.
pub(super) fn parse(text: &str) -> Read<Spanned<DeTable<'_>>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(table);
    }
    let problem = |error: toml::de::Error| Problem {
        at: error.span().unwrap_or(0..0),
        message: error.message().replace('\n', "; "),
    };
    let mut problems: Vec<_> = errors.into_iter().map(problem).collect();
    problems.sort_by_key(|problem| problem.at.start);
    problems.truncate(MOST);
    Err(problems)
}

/// The type of a value, for a message.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A place in a text.
#[derive(Debug, PartialEq)]
pub(super) struct Place<'t> {
    /// The number of the line, from 1.
    pub(super) line: usize,
    /// The number of the character in it, from 1.
    pub(super) column: usize,
    /// The line.
    pub(super) text: &'t str,
}

impl<'t> Place<'t> {
    /// The place of the byte at `offset`.
    pub(super) fn of(text: &'t str, offset: usize) -> Place<'t> {
        let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let before = &text[..offset];
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        Place { line: before.matches('\n').count() + 1, column: text[start..offset].chars().count() + 1, text: line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "ä = 1\r\nbö = 2\n";
        assert_eq!(Place::of(text, 0), Place { line: 1, column: 1, text: "ä = 1" });
        assert_eq!(Place::of(text, text.find('2').unwrap()), Place { line: 2, column: 6, text: "bö = 2" });
        assert_eq!(Place::of(text, 1).column, 1, "inside a character");
        assert_eq!(Place::of(text, 999), Place { line: 3, column: 1, text: "" });
    }
}
