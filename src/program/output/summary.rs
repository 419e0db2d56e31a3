//! Common parts of the summaries for people.

use super::Output;
use super::terminal::{Style, stdout_width};
use super::wrap::wrap;
use crate::content::copy::Reason;
use crate::util::text::{count, counted, duration, size};
use std::collections::BTreeMap;

/// The width of the column of labels. Longer ones make it wider.
const LABELS: usize = 8;
/// The blanks before labels.
const MARGIN: usize = 2;

/// Prints a heading, and below it values with their labels.
pub(super) fn print(output: &Output, heading: &str, rows: &[(&str, String)]) {
    output.line(&Style::Bold.paint(heading, output.colours()));
    let labels = width(rows);
    let indent = MARGIN + labels;
    for (label, value) in rows {
        let value = if output.is_terminal() { wrap(value, indent, indent, stdout_width()) } else { value.clone() };
        output.line(&format!("{:MARGIN$}{label:<labels$}{value}", ""));
    }
}

/// The width at which each label ends with a blank.
fn width(rows: &[(&str, String)]) -> usize {
    rows.iter().map(|(label, _)| label.chars().count() + 1).max().unwrap_or(0).max(LABELS)
}

/// The size of a tree: `1.5 GiB, in 12 directories, 1 symlink`.
pub(super) fn extent(bytes: u64, dirs: u64, symlinks: u64, others: u64) -> String {
    let mut text = size(bytes);
    match dirs {
        0 => {}
        1 => text += ", in 1 directory",
        many => text += &format!(", in {} directories", count(many)),
    }
    for (number, noun) in [(symlinks, "symlink"), (others, "special file")] {
        if number > 0 {
            text += &format!(", {}", counted(number, noun));
        }
    }
    text
}

/// The last rows: the number of errors, and the duration.
pub(super) fn end(rows: &mut Vec<(&'static str, String)>, errors: u64, seconds: f64) {
    if errors > 0 {
        rows.push(("errors", format!("{}, named above", counted(errors, "problem"))));
    }
    rows.push(("time", duration(seconds)));
}

/// `12.0 MiB`, or `nothing`.
pub(super) fn size_or_nothing(bytes: u64) -> String {
    if bytes == 0 { "nothing".to_string() } else { size(bytes) }
}

/// `1 entry`, `2,000 entries`.
pub(super) fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_string() } else { format!("{} entries", count(number)) }
}

/// `12 new, 3 changed`: the parts that are not zero.
pub(super) fn listed<'a>(parts: impl IntoIterator<Item = (u64, &'a str)>) -> String {
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    parts.map(|(number, word)| format!("{} {word}", count(number))).collect::<Vec<_>>().join(", ")
}

/// The parts that are not zero, as in [`listed`], or `no files`.
pub(super) fn listed_or_none<'a>(parts: impl IntoIterator<Item = (u64, &'a str)>) -> String {
    let parts = listed(parts);
    if parts.is_empty() { "no files".to_string() } else { parts }
}

/// `12: 10 copied, 2 there already`: the number of files, how many were transferred, and how many were there already.
pub(super) fn files(files: u64, unchanged: u64, brought: &str) -> String {
    let parts = listed([(files.saturating_sub(unchanged), brought), (unchanged, "there already")]);
    if parts.is_empty() { count(files) } else { format!("{}: {parts}", count(files)) }
}

/// Something that was copied, with the reasons why it was not shared, the largest first.
pub(super) fn with_reasons(what: String, reasons: &BTreeMap<Reason, u64>) -> String {
    let mut reasons: Vec<_> = reasons.iter().filter(|(_, bytes)| **bytes > 0).collect();
    reasons.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    match &reasons[..] {
        [] => what,
        [(reason, _)] => format!("{what} ({reason})"),
        many => {
            let many: Vec<_> = many.iter().map(|(reason, bytes)| format!("{reason}: {}", size(**bytes))).collect();
            format!("{what} ({})", many.join("; "))
        }
    }
}

/// A percentage, never rounded up to 100 %.
pub(super) fn percent(percent: f64) -> String {
    if percent >= 100.0 { "100 %".to_string() } else { format!("{:.1} %", (percent * 10.0).floor() / 10.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_ends_with_a_blank() {
        let of = |label| width(&[("time", String::new()), (label, String::new())]);
        assert_eq!((of("damaged"), of("repaired"), width(&[])), (8, 9, 8));
    }

    #[test]
    fn almost_everything_is_not_all() {
        assert_eq!(percent(99.99), "99.9 %");
        assert_eq!(percent(100.0), "100 %");
    }
}
