//! Reads the keys of a table with their places in the text. Each key that is asked for is a known key; all others are
//! refused in the end. Mistakes are collected, so that one run reports all of them.

use super::nearest::nearest;
use std::cell::RefCell;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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
    known: RefCell<Vec<Key>>,
    /// The keys of all sections, also of those that the profile does not have.
    all: Vec<Key>,
}

/// A key and its section.
pub(super) type Key = (&'static str, &'static str);

impl Reader {
    /// A reader that has found these mistakes already and knows these keys of all sections.
    pub(super) fn new(problems: Vec<Problem>, all: Vec<Key>) -> Reader {
        Reader { problems: RefCell::new(problems), known: RefCell::default(), all }
    }

    /// The mistakes, in the order of the text.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.at.start);
        problems
    }

    /// The keys that were asked for, with their sections.
    pub(super) fn known(&self) -> Vec<Key> {
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

    /// Whether a key is there, perhaps misspelled. The misspelled one is reported as unknown.
    pub(super) fn means(&self, key: &str) -> bool {
        self.has(key) || self.table.iter().any(|(name, _)| nearest(name.get_ref(), [key]).is_some())
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
        if !self.means(key) {
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
            let help = match (self.elsewhere(name), nearest(name, known())) {
                (Some(elsewhere), _) => elsewhere,
                (None, Some(near)) => format!("did you mean {}?", quoted(near)),
                (None, None) => format!("known are {}", known().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("unknown {kind} {}{place}; {help}", quoted(name));
            self.reader.problems.borrow_mut().push(Problem { at: key.span(), message });
        }
    }

    /// Where a key belongs that other sections know.
    fn elsewhere(&self, key: &str) -> Option<String> {
        let others = self.reader.all.iter().filter(|(section, known)| *section != self.section && *known == key);
        let places: Vec<_> = others
            .map(|(section, _)| match *section {
                "" => "before the first section".to_string(),
                section => format!("in [{section}]"),
            })
            .collect();
        (!places.is_empty()).then(|| format!("it belongs {}", places.join(" or ")))
    }

    fn value(&self, key: &str) -> Option<&'t Value<'t>> {
        self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key).map(|(_, value)| value)
    }
}

/// The top of a profile, and the keys in it that are not new. Of these the first one counts.
///
/// # Errors
/// The first mistake in the syntax, after those keys: what follows it is often a consequence.
pub(super) fn parse(text: &str) -> Read<(Spanned<DeTable<'_>>, Vec<Problem>)> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let problem = |error: &toml::de::Error| Problem {
        at: error.span().unwrap_or(0..0),
        message: error.message().replace('\n', "; "),
    };
    let mut problems: Vec<_> = errors.iter().map(problem).collect();
    problems.sort_by_key(|problem| problem.at.start);
    let is_repeated = |problem: &Problem| problem.message.starts_with(REPEATED);
    let Some(first) = problems.iter().position(|problem| !is_repeated(problem)) else { return Ok((table, problems)) };
    if problems[first..].iter().any(|problem| UNCLOSED.iter().any(|sign| problem.message.contains(sign)))
        && let Some(open) = unclosed_before(text, &problems[first])
    {
        problems[first] = open;
    }
    problems.truncate(first + 1);
    Err(problems)
}

/// The message for a second key of one name.
const REPEATED: &str = "duplicate key";
/// Messages for what cannot be in an array: it was not closed.
const UNCLOSED: [&str; 2] = ["`=` in array", "unclosed array"];

/// The mistake before one that is at the beginning of a line: the array before that line is not closed.
fn unclosed_before(text: &str, problem: &Problem) -> Option<Problem> {
    let before = text.get(..problem.at.start)?;
    let end = before.trim_end();
    if !before[end.len()..].contains('\n') && problem.at.start < text.trim_end().len() {
        return None;
    }
    let message = "the array is not closed: ']' is missing".to_string();
    Some(Problem { at: end.len()..end.len(), message })
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
