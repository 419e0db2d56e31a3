//! The documents of the project, and the command lines in them: in blocks of code, in backticks, in lists of a profile.
//!
//! The tests of each program take the lines of that program, and parse them.

use crate::command;
use crate::markdown::{self, Block, Markdown};
use crate::shell;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// A document.
#[derive(Debug)]
pub struct Document {
    /// Its path from the root of the repository.
    pub path: String,
    /// Its parts.
    pub markdown: Markdown,
}

/// The words behind the name of a program.
#[derive(Debug)]
pub struct Line {
    /// Its document and line, as `README.md:20`.
    pub place: String,
    /// The words.
    pub words: Vec<String>,
    /// Whether further words may be necessary: a text names only the options that it is about, variables can replace
    /// others, and a pattern such as `[PATH]` or `…` ends the words.
    pub is_excerpt: bool,
}

/// Programs that start the one that they are given.
const STARTERS: &[&str] =
    &["ForceCommand", "env", "exec", "ionice", "nice", "runuser", "setpriv", "ssh", "sudo", "time", "unshare"];

/// Reads `README.md` and the documents below `docs`.
///
/// # Errors
/// If one of these cannot be read.
pub fn read() -> Result<Vec<Document>> {
    let mut documents = vec![document("README.md")?];
    read_dir("docs", &mut documents)?;
    documents.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(documents)
}

fn read_dir(dir: &str, documents: &mut Vec<Document>) -> Result<()> {
    for entry in fs::read_dir(command::root().join(dir)).with_context(|| format!("cannot read {dir}"))? {
        let entry = entry?;
        let path = format!("{dir}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_dir(&path, documents)?;
        } else if Path::new(&path).extension().is_some_and(|extension| extension == "md") {
            documents.push(document(&path)?);
        }
    }
    Ok(())
}

fn document(path: &str) -> Result<Document> {
    let text = fs::read_to_string(command::root().join(path)).with_context(|| format!("cannot read {path}"))?;
    Ok(Document { path: path.to_owned(), markdown: markdown::parse(&text) })
}

/// All command lines of a program, which is one word or more, as `cargo xtask`.
pub fn lines(documents: &[Document], program: &[&str]) -> Vec<Line> {
    let mut lines = Vec::new();
    for Document { path, markdown } in documents {
        let mut add = |number: usize, is_excerpt: bool, found: Vec<(usize, Vec<String>)>| {
            lines.extend(found.into_iter().map(|(below, words)| line(path, number + below, words, is_excerpt)));
        };
        for (number, code) in &markdown.code {
            add(*number, true, in_shell(code, program));
        }
        for block in &markdown.blocks {
            // Variables replace words of the commands below.
            let is_excerpt = block.text.contains("export PLEACH_");
            add(block.line, is_excerpt, in_block(block, program));
        }
    }
    lines
}

fn line(path: &str, number: usize, mut words: Vec<String>, mut is_excerpt: bool) -> Line {
    // `FILE...` is one file or more.
    for word in &mut words {
        if let Some(name) = word.strip_suffix("...").filter(|name| !name.is_empty() && !name.contains('[')) {
            *word = name.to_owned();
        }
    }
    if let Some(pattern) = words.iter().position(|word| word.contains(['[', '…']) || word == "...") {
        words.truncate(pattern);
        is_excerpt = true;
    }
    Line { place: format!("{path}:{number}"), words, is_excerpt }
}

/// The lines of a program in a block, each with its distance from the block's first line.
fn in_block(block: &Block, program: &[&str]) -> Vec<(usize, Vec<String>)> {
    match block.language.as_str() {
        "toml" => in_lists(&block.text, program),
        "" | "console" | "ini" | "sh" | "text" => in_shell(&typed(&block.text), program),
        _ => Vec::new(),
    }
}

/// What somebody types. In a block with a prompt, other lines are output, and empty here.
fn typed(text: &str) -> String {
    if !text.lines().any(|line| line.starts_with("$ ")) {
        return text.to_owned();
    }
    let mut goes_on = false;
    let mut typed = String::new();
    for line in text.lines() {
        let command = line.strip_prefix("$ ").or_else(|| goes_on.then_some(line)).unwrap_or_default();
        goes_on = command.ends_with('\\');
        typed.push_str(command);
        typed.push('\n');
    }
    typed
}

/// The lines of a program in a text for a shell, each with its distance from the first line of the text.
pub fn in_shell(text: &str, program: &[&str]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for shell::Command { line, words } in shell::commands(text) {
        if let Some(words) = behind(&words, program) {
            found.push((line, words.to_vec()));
        }
        for (at, word) in words.iter().enumerate() {
            // `sh -c 'COMMANDS'`, and `command="COMMANDS"` in a list of keys.
            let is_script = at > 0 && words[at - 1] == "-c";
            let inner = if is_script { Some(word.as_str()) } else { assigned(word) };
            if let Some(inner) = inner.filter(|inner| inner.contains(char::is_whitespace)) {
                found.extend(in_shell(inner, program).into_iter().map(|(below, words)| (line + below, words)));
            }
        }
    }
    found
}

/// The words behind a program, which assignments and starters may precede.
fn behind<'a>(words: &'a [String], program: &[&str]) -> Option<&'a [String]> {
    let begins = words.iter().position(|word| assigned(word).is_none() || is(word, program[0]))?;
    let words = &words[begins..];
    let tried = if STARTERS.contains(&words[0].as_str()) { words.len() } else { 1 };
    let at = (0..tried).find(|at| {
        let here = &words[*at..];
        here.len() >= program.len() && here.iter().zip(program).all(|(word, name)| is(word, name))
    })?;
    Some(&words[at + program.len()..])
}

/// Whether a word is the program: its name, or its path in a directory of programs, also in `ExecStart=`.
fn is(word: &str, name: &str) -> bool {
    let path = word.split_once("=/").map_or(word, |(_, path)| path);
    word == name || path.strip_suffix(name).is_some_and(|dir| dir.ends_with("/bin/"))
}

/// The value in `NAME=VALUE`.
fn assigned(word: &str) -> Option<&str> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_name && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(value)
}

/// The lines in lists of words, as profiles have them: `["pleach", "put", …]`.
fn in_lists(text: &str, program: &[&str]) -> Vec<(usize, Vec<String>)> {
    let lists = text.match_indices("[\"").filter_map(|(at, _)| {
        let (list, _) = text[at..].split_once(']')?;
        // Odd parts are inside quotes.
        let words: Vec<_> = list.split('"').skip(1).step_by(2).map(String::from).collect();
        let words = behind(&words, program)?.to_vec();
        Some((text[..at].matches('\n').count(), words))
    });
    lists.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let documents = [Document { path: "a.md".into(), markdown: markdown::parse(text) }];
        let shown = |line: Line| {
            let end = if line.is_excerpt { " …" } else { "" };
            format!("{} {}{end}", line.place, line.words.join(" "))
        };
        lines(&documents, &["pleach"]).into_iter().map(shown).collect()
    }

    #[test]
    fn lines_are_found_in_text_and_blocks() {
        let text = "Run `pleach list`, or\n`A=b sudo pleach`; see `.pleach/x` and `cargo`.\n\n```\n# pleach no\n\
                    pleach a B... | pleach c > d\nls pleach\n```\n";
        assert_eq!(found(text), ["a.md:1 list …", "a.md:2  …", "a.md:6 a B", "a.md:6 c"]);
    }

    #[test]
    fn output_is_no_command() {
        assert_eq!(found("```\n$ pleach a \\\n  b\npleach c\n$ pleach d\n```\n"), ["a.md:2 a b", "a.md:5 d"]);
    }

    #[test]
    fn a_pattern_ends_the_words() {
        assert_eq!(found("```\npleach a B [C]... --d\npleach e …\n```\n"), ["a.md:2 a B …", "a.md:3 e …"]);
    }

    #[test]
    fn programs_are_started_by_others() {
        let text = "```\nssh web pleach a\nsh -c '\n  pleach b'\ncommand=\"pleach c\",d e\n\
                    ExecStart=/usr/bin/pleach f\nUser=pleach\ninstall pleach /usr/local/bin/\n```\n";
        assert_eq!(found(text), ["a.md:2 a", "a.md:4 b", "a.md:5 c,d", "a.md:6 f"]);
        assert_eq!(found("```\nexport PLEACH_REPO=/r\npleach list\n```\n"), ["a.md:3 list …"]);
    }

    #[test]
    fn lists_of_a_profile_are_lines() {
        let text = "```toml\nbefore = [\n    [\"mount\", \"/b\"],\n    [\"pleach\", \"put\", \"/a\"],\n]\n```\n";
        assert_eq!(found(text), ["a.md:4 put /a"]);
    }
}
