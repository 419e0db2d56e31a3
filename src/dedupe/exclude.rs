//! What the user wants left out: patterns as in a `.gitignore`, against absolute paths.

use crate::error::{Error, Result};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::path::Path;

/// The patterns of `--exclude`.
pub(super) struct Excludes {
    patterns: Gitignore,
}

impl Excludes {
    /// Reads the patterns. One without a slash is of a name anywhere; one with a slash is of a path from the root.
    ///
    /// # Errors
    /// One that is no pattern: a wrong usage.
    pub(super) fn new(patterns: &[String]) -> Result<Excludes> {
        let mut builder = GitignoreBuilder::new("/");
        for pattern in patterns {
            builder
                .add_line(None, pattern)
                .map_err(|error| Error::usage("understand the pattern").at(pattern).because(other(&error)))?;
        }
        let patterns = builder.build().map_err(|error| Error::usage("use the patterns").because(other(&error)))?;
        Ok(Excludes { patterns })
    }

    /// Whether there is any.
    pub(super) fn has_any(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Whether this path is to be left out. What lies below an excluded directory is never asked for.
    pub(super) fn matches(&self, path: &Path, is_directory: bool) -> bool {
        self.patterns.matched(path, is_directory).is_ignore()
    }
}

fn other(error: &ignore::Error) -> std::io::Error {
    std::io::Error::other(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_anywhere_and_paths_from_the_root() {
        let excludes = Excludes::new(&["*.log".into(), "/srv/cache/".into(), "!keep.log".into()]).unwrap();
        assert!(excludes.matches(Path::new("/a/b/x.log"), false));
        assert!(!excludes.matches(Path::new("/a/b/keep.log"), false));
        assert!(excludes.matches(Path::new("/srv/cache"), true));
        assert!(!excludes.matches(Path::new("/srv/cache"), false));
        assert!(!excludes.matches(Path::new("/home/srv/cache"), true));
        assert!(Excludes::new(&["a{".into()]).is_err());
    }
}
