//! Parses one pattern, in the syntax of a `.gitignore` line, into the names that a path must have. `patterns` matches
//! paths.

use crate::error::{Error, Result};
use crate::util::text;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// A pattern as the user wrote it, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The text.
    pub text: String,
    /// The file and the line number, from 1. `None`: the command line.
    pub place: Option<(PathBuf, usize)>,
}

impl From<&str> for Line {
    fn from(text: &str) -> Line {
        Line { text: text.to_string(), place: None }
    }
}

impl Line {
    /// The error for a pattern that is wrong usage.
    pub(super) fn refused(&self, why: &str) -> Error {
        let error = Error::usage("understand the pattern").at(Path::new(&self.text)).because(io::Error::other(why));
        match &self.place {
            Some((file, number)) => error.hint(format!("line {number} of {}", text::path(file))),
            None => error,
        }
    }

    /// The pattern for a message.
    pub(super) fn shown(&self) -> String {
        format!("'{}'", text::escape(OsStr::new(&self.text)))
    }
}

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Where the path begins.
    pub(super) anchor: Anchor,
    /// The names of the path.
    pub(super) parts: Vec<Part>,
    /// `!`: matching entries are kept after all.
    pub(super) keeps: bool,
    /// The pattern ends in a slash: it matches only directories.
    pub(super) directories_only: bool,
}

/// Where the path of a pattern begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// At the root. The pattern is an absolute path, or a name that matches anywhere.
    Root,
    /// At the top of each source, as in a `.gitignore` there.
    Source,
}

/// A name of a path, or a pattern for names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Exactly this name.
    Name(String),
    /// A name that matches a glob.
    Glob(String),
    /// `**`: any number of names, including none.
    Anything,
}

/// Parses a pattern. A pattern without a slash (except at its end) matches a name anywhere. If it begins with a slash,
/// it matches an absolute path. If it has a slash in its middle, it matches a path relative to each source.
///
/// # Errors
/// A pattern that can never match.
pub(super) fn parse(line: &Line) -> Result<Pattern> {
    let (text, keeps) = match line.text.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (line.text.as_str(), false),
    };
    let names = text.trim_end_matches('/');
    let directories_only = names.len() < text.len();
    let anchor = if names.contains('/') && !names.starts_with('/') { Anchor::Source } else { Anchor::Root };
    let mut parts = Vec::new();
    if !names.contains('/') {
        parts.push(Part::Anything);
    }
    for name in names.split('/').filter(|name| !name.is_empty()) {
        match name {
            "." | ".." => {
                return Err(line
                    .refused("a path in a pattern has no '.' or '..'; it begins with '/', or at the top of a source"));
            }
            "**" if parts.last() == Some(&Part::Anything) => {}
            "**" => parts.push(Part::Anything),
            name if name.contains('\0') => return Err(line.refused("no name has a NUL in it")),
            name if name.contains(['*', '?', '[', ']', '{', '}', '\\']) => parts.push(Part::Glob(name.to_string())),
            name => parts.push(Part::Name(name.to_string())),
        }
    }
    // A name must follow `**`: the pattern matches everything in a directory, but not the directory itself.
    if parts.last() == Some(&Part::Anything) && names.contains("**") {
        parts.push(Part::Glob("*".to_string()));
    }
    if parts.iter().all(|part| *part == Part::Anything) {
        return Err(line.refused("it names nothing"));
    }
    Ok(Pattern { anchor, parts, keeps, directories_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<Part> {
        parse(&Line::from(text)).unwrap().parts
    }

    fn name(text: &str) -> Part {
        Part::Name(text.into())
    }

    #[test]
    fn a_path_begins_at_the_root_or_at_a_source() {
        let anchor = |text: &str| parse(&Line::from(text)).unwrap().anchor;
        assert_eq!(["a", "a/", "/a", "/a/b", "!/a/b", "**"].map(anchor), [Anchor::Root; 6]);
        assert_eq!(["a/b", "!a/b", "a/b/", "**/a", "a/**"].map(anchor), [Anchor::Source; 5]);
    }

    #[test]
    fn names_match_anywhere_and_paths_have_their_names() {
        assert_eq!(parts("a"), [Part::Anything, name("a")]);
        assert_eq!(parts("a/"), [Part::Anything, name("a")]);
        assert_eq!(parts("/a"), [name("a")]);
        assert_eq!(parts("a/b"), [name("a"), name("b")]);
        assert_eq!(parts("**/a/b"), [Part::Anything, name("a"), name("b")]);
        assert_eq!(parts("/a/**"), [name("a"), Part::Anything, Part::Glob("*".into())]);
        assert_eq!(parts("**"), [Part::Anything, Part::Glob("*".into())]);
    }

    #[test]
    fn marks_around_a_pattern_are_not_of_it() {
        let pattern = parse(&Line::from("!/a/b/")).unwrap();
        assert!(pattern.keeps && pattern.directories_only);
        let pattern = parse(&Line::from("\\!a")).unwrap();
        assert_eq!(pattern.parts, [Part::Anything, Part::Glob("\\!a".into())]);
        assert!(!pattern.keeps && !pattern.directories_only);
    }

    #[test]
    fn what_can_match_nothing_is_refused_with_its_place() {
        for wrong in ["", "/", "!", "!/", "./a", "/a/../b", "a\0b"] {
            assert_eq!(parse(&Line::from(wrong)).unwrap_err().kind(), crate::error::ErrorKind::Usage, "{wrong:?}");
        }
        let line = Line { text: "./a".into(), place: Some(("/x y".into(), 7)) };
        let message = parse(&line).unwrap_err().to_string();
        assert!(message.ends_with("(line 7 of '/x y')"), "{message}");
    }
}
