//! Reads single values: strings, paths, sizes, durations, choices, lists. Writes sizes and durations as profiles have
//! them.

use super::fields::{Problem, Read, Value, kind};
use super::nearest::nearest;
use crate::dedupe::ranges::check_min_run;
use crate::snapshot::repository::check_tag;
use crate::tree::exclude::{Line, Patterns};
use crate::util::text::{parse_duration, parse_size};
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeValue;

/// A mistake in this value.
pub(super) fn refused<T>(value: &Value<'_>, message: impl Into<String>) -> Read<T> {
    Err(vec![Problem { at: value.span(), message: message.into() }])
}

fn unexpected<T>(value: &Value<'_>, expected: &str) -> Read<T> {
    refused(value, format!("expected {expected}, found {}", kind(value.get_ref())))
}

/// A string.
pub(super) fn string(value: &Value<'_>) -> Read<String> {
    match value.get_ref() {
        DeValue::String(text) if text.contains('\0') => refused(value, "the character NUL cannot be used here"),
        DeValue::String(text) => Ok(text.to_string()),
        _ => unexpected(value, "a string"),
    }
}

/// A string that `parse` understands.
fn parsed<T>(value: &Value<'_>, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Read<T> {
    let text = string(value)?;
    parse(&text).map_or_else(|| refused(value, format!("expected {expected}")), Ok)
}

/// `true` or `false`.
pub(super) fn flag(value: &Value<'_>) -> Read<bool> {
    match value.get_ref() {
        DeValue::Boolean(flag) => Ok(*flag),
        _ => unexpected(value, "true or false"),
    }
}

/// An integer in this range.
pub(super) fn integer(value: &Value<'_>, range: std::ops::RangeInclusive<i64>) -> Read<i64> {
    let expected = format!("an integer from {} to {}", range.start(), range.end());
    match value.get_ref() {
        DeValue::Integer(_) => match whole(value).filter(|number| range.contains(number)) {
            Some(number) => Ok(number),
            None => refused(value, format!("expected {expected}")),
        },
        _ => unexpected(value, &expected),
    }
}

/// A number of things.
pub(super) fn count(value: &Value<'_>) -> Read<u64> {
    const EXPECTED: &str = "a whole number that is not negative";
    match value.get_ref() {
        DeValue::Integer(_) => natural(value, EXPECTED),
        _ => unexpected(value, EXPECTED),
    }
}

/// A number of things, at least one.
pub(super) fn positive(value: &Value<'_>) -> Read<u64> {
    match count(value)? {
        0 => refused(value, "expected 1 or more"),
        number => Ok(number),
    }
}

/// The number in an integer that is not negative.
fn natural(value: &Value<'_>, expected: &str) -> Read<u64> {
    let number = whole(value).and_then(|number| u64::try_from(number).ok());
    number.map_or_else(|| refused(value, format!("expected {expected}")), Ok)
}

fn whole(value: &Value<'_>) -> Option<i64> {
    let number = value.get_ref().as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// An absolute path.
pub(super) fn absolute(value: &Value<'_>) -> Read<PathBuf> {
    let path = PathBuf::from(string(value)?);
    if path.is_absolute() { Ok(path) } else { refused(value, "it is not an absolute path: it must begin with '/'") }
}

/// The name of a directory's entry.
pub(super) fn name(value: &Value<'_>) -> Read<String> {
    let is_name = |text: &str| !matches!(text, "" | "." | "..") && !text.contains('/');
    parsed(value, "a name without a slash", |text| is_name(text).then(|| text.to_string()))
}

/// A tag of a snapshot.
pub(super) fn tag(value: &Value<'_>) -> Read<String> {
    let tag = string(value)?;
    match check_tag(&tag) {
        Ok(()) => Ok(tag),
        Err(error) => refused(value, error.to_string()),
    }
}

/// A pattern of paths.
pub(super) fn pattern(value: &Value<'_>) -> Read<String> {
    let text = string(value)?;
    match Patterns::new([Line::from(text.as_str())]) {
        Ok(_) => Ok(text),
        Err(error) => refused(value, error.to_string()),
    }
}

/// A size in bytes: a number, or a string with a unit.
pub(super) fn size_or_none(value: &Value<'_>) -> Read<u64> {
    const EXPECTED: &str = "a size as 4096, \"64K\", \"4G\" or \"1.5T\" (powers of 1024)";
    match value.get_ref() {
        DeValue::Integer(_) => natural(value, EXPECTED),
        DeValue::String(_) => parsed(value, EXPECTED, parse_size),
        _ => unexpected(value, EXPECTED),
    }
}

/// A size that is more than nothing.
pub(super) fn size(value: &Value<'_>) -> Read<u64> {
    match size_or_none(value)? {
        0 => refused(value, "expected more than 0"),
        bytes => Ok(bytes),
    }
}

/// The shortest range that dedupe shares.
pub(super) fn min_run(value: &Value<'_>) -> Read<u64> {
    check_min_run(size(value)?).or_else(|message| refused(value, message))
}

/// A length of time that is more than nothing.
pub(super) fn duration(value: &Value<'_>) -> Read<Duration> {
    match parsed(value, "a duration as \"90s\", \"30m\", \"1h30m\" or \"14d\"", parse_duration)? {
        Duration::ZERO => refused(value, "expected more than 0"),
        duration => Ok(duration),
    }
}

/// A percentage: a number, or a string with or without the sign.
pub(super) fn percent(value: &Value<'_>) -> Read<f64> {
    const EXPECTED: &str = "a percentage from 0 to 100, as 95 or \"95%\"";
    let number = match value.get_ref() {
        DeValue::String(text) => text.strip_suffix('%').unwrap_or(text).trim_end().parse().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        DeValue::Integer(_) => whole(value).map(|number| number as f64),
        _ => return unexpected(value, EXPECTED),
    };
    match number.filter(|percent: &f64| (0.0..=100.0).contains(percent)) {
        Some(percent) => Ok(percent),
        None => refused(value, format!("expected {EXPECTED}")),
    }
}

/// A percentage of less than everything.
pub(super) fn less_than_all(value: &Value<'_>) -> Read<f64> {
    let percent = percent(value)?;
    if percent < 100.0 { Ok(percent) } else { refused(value, "expected less than 100 %") }
}

/// A percentage of more than nothing.
pub(super) fn part(value: &Value<'_>) -> Read<f64> {
    let percent = percent(value)?;
    if percent > 0.0 { Ok(percent) } else { refused(value, "expected more than 0 %") }
}

/// One of these words.
pub(super) fn choice<T: Copy>(value: &Value<'_>, choices: &[(&'static str, T)]) -> Read<T> {
    let text = string(value)?;
    if let Some((_, chosen)) = choices.iter().find(|(word, _)| *word == text) {
        return Ok(*chosen);
    }
    let words: Vec<_> = choices.iter().map(|(word, _)| format!("'{word}'")).collect();
    let expected = match &words[..] {
        [words @ .., last] if !words.is_empty() => format!("expected {} or {last}", words.join(", ")),
        words => format!("expected {}", words.concat()),
    };
    match nearest(&text, choices.iter().map(|(word, _)| *word)) {
        Some(near) => refused(value, format!("{expected}; did you mean '{near}'?")),
        None => refused(value, expected),
    }
}

/// A list.
pub(super) fn list<'t, T>(value: &'t Value<'t>, read: impl Fn(&'t Value<'t>) -> Read<T>) -> Read<Vec<T>> {
    let DeValue::Array(array) = value.get_ref() else { return unexpected(value, "an array") };
    let (mut items, mut problems) = (Vec::new(), Vec::new());
    for item in array.iter() {
        match read(item) {
            Ok(item) => items.push(item),
            Err(more) => problems.extend(more),
        }
    }
    if problems.is_empty() { Ok(items) } else { Err(problems) }
}

/// A list with something in it.
pub(super) fn filled<'t, T>(value: &'t Value<'t>, read: impl Fn(&'t Value<'t>) -> Read<T>) -> Read<Vec<T>> {
    let items = list(value, read)?;
    if items.is_empty() { refused(value, "expected at least one") } else { Ok(items) }
}

/// Commands, each a list of words: one command, or a list of them.
pub(super) fn commands<'t>(value: &'t Value<'t>) -> Read<Vec<Vec<String>>> {
    let DeValue::Array(array) = value.get_ref() else {
        return unexpected(value, "an array: a command's words, as [\"mount\", \"/backup\"], or several such arrays");
    };
    if array.iter().next().is_some_and(|first| matches!(first.get_ref(), DeValue::Array(_))) {
        return list(value, command);
    }
    if array.iter().next().is_none() { Ok(Vec::new()) } else { Ok(vec![command(value)?]) }
}

fn command<'t>(value: &'t Value<'t>) -> Read<Vec<String>> {
    let words = list(value, string)?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => refused(value, "expected a command: the name of a program, then its arguments"),
    }
}

/// The word for a choice.
pub(super) fn word<T: PartialEq>(choices: &[(&'static str, T)], chosen: &T) -> &'static str {
    choices.iter().find(|(_, choice)| choice == chosen).map_or("", |(word, _)| *word)
}

/// A size as profiles have it.
pub(super) fn size_text(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let unit = UNITS.iter().find(|(_, power)| bytes > 0 && bytes.is_multiple_of(1 << power));
    unit.map_or_else(|| bytes.to_string(), |(unit, power)| format!("{}{unit}", bytes >> power))
}

/// A duration as profiles have it.
pub(super) fn duration_text(duration: Duration) -> String {
    let mut rest = duration.as_secs();
    let mut text = String::new();
    for (unit, seconds) in [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)] {
        if rest >= seconds {
            text += &format!("{}{unit}", rest / seconds);
            rest %= seconds;
        }
    }
    if text.is_empty() { "0s".to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_written_as_they_are_read() {
        for bytes in [0, 1, 1023, 1024, 1536, 64 << 10, 3 << 20, 5 << 40, u64::MAX] {
            assert_eq!(parse_size(&size_text(bytes)), Some(bytes));
        }
        for seconds in [0, 1, 60, 90, 3600, 5400, 86_400, 90_061] {
            let duration = Duration::from_secs(seconds);
            assert_eq!(parse_duration(&duration_text(duration)), Some(duration));
        }
        assert_eq!(duration_text(Duration::from_secs(600)), "10m");
    }
}
