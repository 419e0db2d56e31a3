//! The files of the repository, read once: the paths of all, the text of Rust and Markdown files and of the manifest.
//!
//! Build output and `.git` are not part of it. The checks read nothing from disk themselves.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Directories that are not part of the project, wherever they lie.
const SKIPPED: &[&str] = &[".git", "target"];

/// All files, by path from the root.
#[derive(Default)]
pub(crate) struct Files {
    /// Files and directories.
    paths: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

impl Files {
    /// Reads the repository at `root`.
    pub(crate) fn read(root: &Path) -> Result<Files> {
        let mut files = Files::default();
        files.read_dir(root, "")?;
        Ok(files)
    }

    fn read_dir(&mut self, dir: &Path, prefix: &str) -> Result<()> {
        for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.read_dir(&entry.path(), &format!("{path}/"))?;
                    self.paths.insert(path);
                }
                continue;
            }
            if path.ends_with(".rs") || path.ends_with(".md") || path == "Cargo.toml" || path == "Cargo.lock" {
                let text = fs::read_to_string(entry.path()).with_context(|| format!("cannot read {path}"))?;
                self.texts.insert(path.clone(), text);
            }
            self.paths.insert(path);
        }
        Ok(())
    }

    /// Files that exist only in memory.
    #[cfg(test)]
    pub(crate) fn of(texts: &[(&str, &str)]) -> Files {
        let mut files = Files::default();
        for (path, text) in texts {
            files.texts.insert((*path).to_owned(), (*text).to_owned());
            for ancestor in Path::new(path).ancestors() {
                files.paths.insert(ancestor.to_string_lossy().into_owned());
            }
        }
        files
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Rust files below `src`, `tests` and `xtask`.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| {
            path.ends_with(".rs") && ["src/", "tests/", "xtask/"].iter().any(|dir| path.starts_with(dir))
        })
    }

    /// `README.md` and the Markdown files below `docs`.
    pub(crate) fn markdown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| *path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md")))
    }

    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Whether there is a file or directory at `path`.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether the path of some file or directory ends with the names of `path`.
    pub(crate) fn exists_below(&self, path: &str) -> bool {
        let end = format!("/{path}");
        self.exists(path) || self.paths.iter().any(|known| known.ends_with(&end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_and_markdown_files_are_those_of_the_project() {
        let files = Files::of(&[("src/a.rs", ""), ("build.rs", ""), ("docs/x/b.md", ""), ("NOTES.md", "")]);
        assert_eq!(files.rust().map(|(path, _)| path).collect::<Vec<_>>(), ["src/a.rs"]);
        assert_eq!(files.markdown().map(|(path, _)| path).collect::<Vec<_>>(), ["docs/x/b.md"]);
    }

    #[test]
    fn a_path_may_be_given_by_its_last_names() {
        let files = Files::of(&[("src/tree/walk.rs", "")]);
        assert!(files.exists("src/tree") && files.exists_below("tree/walk.rs"));
        assert!(!files.exists_below("ree/walk.rs"));
    }
}
