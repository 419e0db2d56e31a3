//! Check `width`: no line of Rust or Markdown is wider than 120 columns.
//!
//! Tables, blocks of program output and the targets of links cannot be broken: they do not count in Markdown.

use super::files::Files;
use super::finding::Finding;
use crate::markdown;

const COLUMNS: usize = 120;

/// Finds lines that are too wide.
pub(crate) fn check(files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in files.rust() {
        found.extend(wide(path, text, |_, line| line.chars().count()));
    }
    for (path, text) in files.markdown() {
        let parsed = markdown::parse(text);
        let is_verbatim = |number| parsed.verbatim.iter().any(|(first, end)| (*first..*end).contains(&number));
        found.extend(wide(path, text, |number, line| if is_verbatim(number) { 0 } else { without_targets(line) }));
    }
    found
}

fn wide(path: &str, text: &str, columns: impl Fn(usize, &str) -> usize) -> Vec<Finding> {
    let lines = text.lines().zip(1..).map(|(line, number)| (number, columns(number, line)));
    let wide = lines.filter(|(_, columns)| *columns > COLUMNS);
    wide.map(|(number, columns)| {
        Finding::new(path, number, format!("{columns} columns, {COLUMNS} are allowed: break the line"))
    })
    .collect()
}

/// The columns of a line of Markdown, not counting the targets of its links.
fn without_targets(line: &str) -> usize {
    if line.starts_with('[') && line.contains("]: ") {
        return 0;
    }
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().chars().count();
    let after = parts.map(|part| part.split_once(')').map_or(part, |(_, rest)| rest).chars().count() + "]()".len());
    first + after.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Files::of(&[(path, text)])).iter().map(|found| found.line).collect()
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        let fits = "é".repeat(120);
        assert_eq!(lines("src/a.rs", &format!("{fits}\n{fits}x\n")), [2]);
    }

    #[test]
    fn tables_output_and_targets_of_links_do_not_count() {
        let wide = "x".repeat(130);
        assert_eq!(lines("docs/a.md", &format!("a\n\n{wide}\n")), [3]);
        assert_eq!(lines("docs/a.md", &format!("| a |\n|---|\n| {wide} |\n\n```\n{wide}\n```\n")), [0; 0]);
        assert_eq!(lines("README.md", &format!("```rust\n{wide}\n```\n")), [2]);
        assert_eq!(lines("README.md", &format!("[a](https://{wide}) b [c](d.md)\n")), [0; 0]);
        assert_eq!(lines("README.md", &format!("[a](b.md) {wide}\n")), [1]);
    }
}
