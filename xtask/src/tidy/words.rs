//! Check `words`: prose is plain English, without the phrases of `word_list`.
//!
//! Prose is running text in Markdown, comments, and strings of more than one word. Words in backticks and blocks of
//! code do not count. The check covers [`CLEAN`] only; `cargo xtask tidy --words` counts phrases everywhere.

use super::files::Files;
use super::finding::Finding;
use super::scan::{self, Kind};
use super::word_list::{ENTRIES, Entry, NOUN_STARTS, Place};
use crate::markdown;
use std::collections::BTreeMap;

/// The files and directories that must have none of the phrases.
const CLEAN: &[&str] = &["README.md", "docs", "src", "tests", "xtask"];

/// Phrases that stay: words of the JSON output and of a format, which never change.
const ALLOWED: &[(&str, &str)] = &[("src/program/output/probe/answers.rs", "told"), ("src/dedupe/cache.rs", "whose")];

/// The list of the phrases, and the tests of this check.
const OWN: &[&str] = &["xtask/src/tidy/word_list.rs", "xtask/src/tidy/words.rs"];

/// Finds phrases in the files of [`CLEAN`].
pub(crate) fn check(files: &Files) -> Vec<Finding> {
    check_in(files, CLEAN)
}

fn check_in(files: &Files, clean: &[&str]) -> Vec<Finding> {
    let missing = clean.iter().filter(|path| !files.exists(path));
    let mut found: Vec<_> = missing
        .map(|path| Finding::new("xtask/src/tidy/words.rs", 1, format!("there is no {path}: correct the list CLEAN")))
        .collect();
    for hit in hits(files) {
        if clean.iter().any(|path| hit.path == *path || hit.path.starts_with(&format!("{path}/"))) {
            let message = format!("\"{}\" is hard to read: write: {}", hit.phrase, hit.entry.instead);
            found.push(Finding::new(hit.path, hit.line, message));
        }
    }
    found
}

/// How often each group of phrases occurs in each part of the repository, as a table.
pub(crate) fn counts(files: &Files) -> String {
    const PARTS: &[&str] = &["README.md", "docs", "src/program", "src", "tests", "xtask"];
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for hit in hits(files) {
        let part = PARTS.iter().copied().find(|part| hit.path.starts_with(*part)).unwrap_or_default();
        for group in [hit.entry.phrases[0], "all"] {
            *counts.entry((group, part)).or_default() += 1;
            *counts.entry((group, "all")).or_default() += 1;
        }
    }
    let parts = || PARTS.iter().copied().chain(["all"]);
    let mut table = format!("{:20}", "");
    parts().for_each(|part| table += &format!("{part:>11}"));
    for group in ENTRIES.iter().map(|entry| entry.phrases[0]).chain(["all"]) {
        table += &format!("\n{group:20}");
        parts().for_each(|part| table += &format!("{:>11}", counts.get(&(group, part)).unwrap_or(&0)));
    }
    table
}

/// A phrase in a file.
struct Hit<'a> {
    path: &'a str,
    line: usize,
    phrase: &'static str,
    entry: &'static Entry,
}

fn hits(files: &Files) -> Vec<Hit<'_>> {
    let mut hits = Vec::new();
    let rust = files.rust().filter(|(path, _)| !OWN.contains(path)).map(|(path, text)| (path, rust_prose(text)));
    let markdown = files.markdown().map(|(path, text)| (path, markdown::parse(text).prose));
    for (path, prose) in rust.chain(markdown) {
        for paragraph in prose {
            let words = words(&paragraph);
            for entry in ENTRIES {
                for phrase in entry.phrases {
                    if ALLOWED.contains(&(path, phrase)) {
                        continue;
                    }
                    let lines = find(&words, phrase, entry.place);
                    hits.extend(lines.into_iter().map(|line| Hit { path, line, phrase, entry }));
                }
            }
        }
    }
    hits.sort_by_key(|hit| (hit.path, hit.line));
    hits
}

/// The paragraphs of the comments and strings of a Rust file.
fn rust_prose(text: &str) -> Vec<Vec<(usize, String)>> {
    let mut prose: Vec<Vec<(usize, String)>> = Vec::new();
    let (mut next_line, mut in_block, mut last_kind) = (0, false, Kind::Literal);
    for piece in scan::pieces(text) {
        if piece.kind != last_kind
            || piece.line != next_line
            || piece.text.trim().is_empty()
            || piece.kind == Kind::Literal
        {
            prose.push(Vec::new());
            in_block &= piece.kind == last_kind && piece.line == next_line;
        }
        (next_line, last_kind) = (piece.line + 1, piece.kind);
        if piece.kind == Kind::Literal && !piece.text.trim().contains(' ') {
            continue;
        }
        for (line, number) in piece.text.lines().zip(piece.line..) {
            let is_fence = piece.kind == Kind::Doc && line.trim_start().starts_with("```");
            in_block ^= is_fence;
            if !in_block
                && !is_fence
                && let Some(paragraph) = prose.last_mut()
            {
                paragraph.push((number, without_code(line)));
            }
        }
    }
    prose
}

/// A line without the words in backticks.
fn without_code(line: &str) -> String {
    let parts: Vec<_> = line.split('`').collect();
    parts.iter().step_by(2).copied().collect::<Vec<_>>().join(" ` ")
}

/// A word of a paragraph.
struct Word {
    /// In lower case, without punctuation.
    text: String,
    line: usize,
    /// Whether a sentence begins here.
    is_first: bool,
    /// The punctuation after it: `,`, or a sentence's end.
    end: Option<char>,
}

fn words(paragraph: &[(usize, String)]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut is_first = true;
    for (line, text) in paragraph {
        for written in text.split_whitespace() {
            // `{told}` in a message is code.
            let is_code = written.contains(['{', '}']);
            let text = written.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            let text = if is_code { String::new() } else { text };
            let end = written.trim_end_matches(['"', ')', '*', '_']).chars().last().filter(|c| !c.is_alphanumeric());
            let ends = end.is_some_and(|end| matches!(end, '.' | '?' | '!' | ':' | ';'));
            words.push(Word { text, line: *line, is_first, end });
            is_first = ends;
        }
    }
    words
}

/// The lines on which `phrase` begins.
fn find(words: &[Word], phrase: &str, place: Place) -> Vec<usize> {
    let phrase: Vec<_> = phrase.split(' ').collect();
    let mut lines = Vec::new();
    for (at, window) in words.windows(phrase.len()).enumerate() {
        let is_whole = window[..phrase.len() - 1].iter().all(|word| word.end.is_none());
        let matches = window.iter().map(|word| word.text.as_str()).eq(phrase.iter().copied());
        if is_whole && matches && counts_here(place, &words[at..], phrase.len()) {
            lines.push(window[0].line);
        }
    }
    lines
}

/// Whether a phrase of this length at the beginning of `words` counts.
fn counts_here(place: Place, words: &[Word], length: usize) -> bool {
    match place {
        Place::Anywhere => true,
        Place::Statement => {
            let mut ends = words.iter().filter_map(|word| word.end);
            let end = ends.find(|end| matches!(end, '.' | '?' | '!'));
            end != Some('?') && (end.is_some() || !words[0].is_first)
        }
        Place::Verb => {
            let ends = words[length - 1].end.is_some();
            ends || !words.get(length).is_some_and(|next| NOUN_STARTS.contains(&next.text.as_str()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let files = Files::of(&[(path, text)]);
        check_in(&files, &[path]).iter().map(|found| format!("{}: {}", found.line, found.message)).collect()
    }

    fn lines(path: &str, text: &str) -> Vec<usize> {
        hits(&Files::of(&[(path, text)])).iter().map(|hit| hit.line).collect()
    }

    #[test]
    fn phrases_are_found_across_lines() {
        assert_eq!(
            found("docs/a.md", "It is handed\ndown. It `tells`.\n\n```\ntold\n```\n"),
            ["1: \"handed down\" is hard to read: write: inherited"]
        );
    }

    #[test]
    fn comments_and_messages_are_prose_and_code_is_not() {
        let text =
            "//! It tells.\n/// `told`\n// whose\nlet told = \"told\"; f(\"is told\");\n/// ```\n/// told\n/// ```\n";
        assert_eq!(lines("src/a.rs", text), [1, 3, 4]);
    }

    #[test]
    fn what_is_counts_only_inside_a_statement() {
        assert_eq!(lines("docs/a.md", "What is it? Ask what is shared?\nKeep what is shared."), [2]);
        assert_eq!(lines("docs/a.md", "# What is shared\n\nWhat is shared."), [3]);
        assert_eq!(lines("docs/a.md", "Is to, be. It has\n\nthe last word."), [0; 0]);
    }

    #[test]
    fn verbs_count_unless_a_place_or_time_follows() {
        assert_eq!(
            lines("docs/a.md", "They come in the order.\nThey come in, the others do not.\nIt took in files."),
            [2, 3]
        );
    }

    #[test]
    fn names_in_messages_are_code() {
        assert_eq!(lines("src/a.rs", "f(\"freed {told} of\");\ng(\"as told {x}\");"), [2]);
    }

    #[test]
    fn only_clean_paths_are_checked_and_must_exist() {
        let files = Files::of(&[("docs/a.md", "It tells.\n"), ("docs/b/c.md", "It tells.\n")]);
        let found = check_in(&files, &["docs/b", "docs/x.md"]);
        let messages: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.message.as_str())).collect();
        assert_eq!(messages[0], ("xtask/src/tidy/words.rs", "there is no docs/x.md: correct the list CLEAN"));
        assert_eq!((messages.len(), messages[1].0), (2, "docs/b/c.md"));
    }

    #[test]
    fn counts_are_a_table() {
        let table = counts(&Files::of(&[("docs/a.md", "It tells. It told.\n"), ("src/program/a.rs", "// whose\n")]));
        let last = table.lines().last().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(last.unwrap_or_default(), ["all", "0", "2", "1", "0", "0", "0", "3"]);
    }
}
