//! Check `documents`: the files, directories and headings that documents and doc comments name exist.
//!
//! Looked at are the targets of links, and words in backticks that look like a path of this repository.

use super::files::Files;
use super::finding::Finding;
use super::scan::{self, Kind};
use crate::markdown::{self, Markdown};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Directories at the top of the repository.
const TOP: &[&str] = &["src", "docs", "tests", "xtask", ".ci", ".cargo"];

/// Finds names of files that do not exist.
pub(crate) fn check(files: &Files) -> Vec<Finding> {
    let documents: BTreeMap<_, _> = files.markdown().map(|(path, text)| (path, markdown::parse(text))).collect();
    let mut found = Vec::new();
    for (path, parsed) in &documents {
        found.extend(check_text(files, &documents, path, parsed, 0));
    }
    for (path, text) in files.rust() {
        for (line, comment) in doc_comments(text) {
            found.extend(check_text(files, &documents, path, &markdown::parse(&comment), line - 1));
        }
    }
    found
}

/// Checks one text that begins after `above` lines of the file `path`.
fn check_text(
    files: &Files,
    documents: &BTreeMap<&str, Markdown>,
    path: &str,
    parsed: &Markdown,
    above: usize,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, target) in &parsed.links {
        if let Some(problem) = link_problem(files, documents, path, target) {
            found.push(Finding::new(path, line + above, problem));
        }
    }
    for (line, code) in &parsed.code {
        let Some(named) = repository_path(files, code) else { continue };
        let here = Path::new(path).parent().map(|dir| joined(dir, &named));
        let exists = files.exists_below(&named)
            || here.is_some_and(|here| files.exists(&here))
            || files.exists_below(&format!("{named}.rs"));
        if !exists {
            let problem = format!("`{code}` does not exist: name the file that replaced it");
            found.push(Finding::new(path, line + above, problem));
        }
    }
    found
}

/// The problem with the target of a link in the file `from`.
fn link_problem(files: &Files, documents: &BTreeMap<&str, Markdown>, from: &str, target: &str) -> Option<String> {
    let is_code = from.ends_with(".rs") && !target.contains(".md") && !target.contains(".rs");
    if target.contains("://") || target.starts_with("mailto:") || target.contains("::") || is_code {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let dir = Path::new(from).parent().unwrap_or(Path::new(""));
    let file = if file.is_empty() { from.to_owned() } else { joined(dir, file) };
    if !files.exists(&file) {
        return Some(format!("{file} does not exist: link to the file that replaced it"));
    }
    let (anchor, document) = (anchor?, documents.get(file.as_str())?);
    let is_missing = !document.anchors.contains(anchor);
    is_missing.then(|| format!("{file} has no heading #{anchor}: link to one of its headings"))
}

/// The path that a word in backticks means, if it looks like one of this repository.
fn repository_path(files: &Files, code: &str) -> Option<String> {
    let is_plain = code.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':'));
    if !is_plain || code.contains("::") || code.starts_with('/') || code.contains("..") {
        return None;
    }
    // `file.rs:12` names a line.
    let (path, line) = code.split_once(':').unwrap_or((code, ""));
    let path = path.trim_end_matches('/');
    if !line.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let first = path.split('/').next()?;
    let last = path.rsplit('/').next()?;
    // Kernel sources begin with `fs/` too.
    let is_foreign = last.contains('.') && !last.ends_with(".rs") && !last.ends_with(".md");
    let is_in_src = files.exists(&format!("src/{first}")) && !is_foreign;
    let is_ours = path.contains('/') && (TOP.contains(&first) || is_in_src);
    let is_source = path.ends_with(".rs") && path != ".rs" || (path.contains('/') && path.ends_with(".md"));
    (is_ours || is_source).then(|| path.to_owned())
}

/// `path` below `dir`, with `..` taken away.
fn joined(dir: &Path, path: &str) -> String {
    let mut joined = PathBuf::new();
    for component in dir.join(path).components() {
        match component {
            Component::ParentDir => drop(joined.pop()),
            Component::CurDir => {}
            other => joined.push(other),
        }
    }
    joined.to_string_lossy().into_owned()
}

/// The doc comments of a file, with the line each begins on; lines that follow each other are one.
fn doc_comments(text: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut next_line = 0;
    for piece in scan::pieces(text).into_iter().filter(|piece| piece.kind == Kind::Doc) {
        match comments.last_mut() {
            Some((_, comment)) if piece.line == next_line => {
                comment.push('\n');
                comment.push_str(piece.text);
            }
            _ => comments.push((piece.line, piece.text.to_owned())),
        }
        next_line = piece.line + 1;
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[(&str, &str)]) -> Vec<String> {
        check(&Files::of(texts)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn missing_files_in_backticks_are_found() {
        let readme = "`src/fs/a.rs` `src/fs` `fs/a.rs:3` `a.rs` `fs/a` `cargo t` `/a/b.rs` `crate::a` `x/y` `fs/a.c`\n\
                      `src/b.rs` and `fs/b` `b.rs` `fs/b.md`\n";
        assert_eq!(
            found(&[("README.md", readme), ("src/fs/a.rs", "")]),
            [
                "README.md:2: `src/b.rs` does not exist: name the file that replaced it",
                "README.md:2: `fs/b` does not exist: name the file that replaced it",
                "README.md:2: `b.rs` does not exist: name the file that replaced it",
                "README.md:2: `fs/b.md` does not exist: name the file that replaced it",
            ]
        );
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let a = "# Two words\n[b](guide/b.md) [c](#two-words) [d](../README.md) [e](https://x.y/z.md)\n";
        let b = "[a](../a.md#two-words)\n[x](x.md)\n[y](../a.md#three) [z](#four)\n";
        assert_eq!(
            found(&[("README.md", ""), ("docs/a.md", a), ("docs/guide/b.md", b)]),
            [
                "docs/guide/b.md:2: docs/guide/x.md does not exist: link to the file that replaced it",
                "docs/guide/b.md:3: docs/a.md has no heading #three: link to one of its headings",
                "docs/guide/b.md:3: docs/guide/b.md has no heading #four: link to one of its headings",
            ]
        );
    }

    #[test]
    fn doc_comments_are_checked_too() {
        let a = "//! Head.\n//! See `docs/a.md`.\n\n/// [`A`](crate::A) `self.x`\n// `src/c.rs`\nf(\"`src/d.rs`\")\n";
        assert_eq!(
            found(&[("src/a.rs", a)]),
            ["src/a.rs:2: `docs/a.md` does not exist: name the file that replaced it"]
        );
    }
}
