//! The names on the way to entries that are looked at because of their paths.

use crate::util::path::split;
use std::collections::{BTreeSet, HashMap};

/// For each directory, names in it. The root, which all paths are below, is the empty path.
#[derive(Debug, Default)]
pub(super) struct Ways(HashMap<Vec<u8>, BTreeSet<Vec<u8>>>);

impl Ways {
    /// Adds the names on the way to a path, and its own.
    pub(super) fn add(&mut self, path: &[u8]) {
        let mut path = path;
        while !path.is_empty() {
            let (directory, name) = split(path);
            // A name that is known has its way already.
            if !self.0.entry(directory.to_vec()).or_default().insert(name.to_vec()) {
                break;
            }
            path = directory;
        }
    }

    /// The names in this directory.
    pub(super) fn names(&self, directory: &[u8]) -> impl Iterator<Item = &Vec<u8>> {
        self.0.get(directory).into_iter().flatten()
    }

    /// Whether this name in this directory is on the way.
    pub(super) fn has(&self, directory: &[u8], name: &[u8]) -> bool {
        self.0.get(directory).is_some_and(|names| names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_on_the_way_to_a_path_is_in_its_directory() {
        let mut ways = Ways::default();
        ways.add(b"srv/a/file");
        ways.add(b"srv/b");
        ways.add(b"srv/a");
        ways.add(b"");
        let names =
            |directory: &[u8]| ways.names(directory).map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>();
        assert_eq!(names(b""), ["srv"]);
        assert_eq!(names(b"srv"), ["a", "b"]);
        assert_eq!(names(b"srv/a"), ["file"]);
        assert!(names(b"srv/b").is_empty());
        assert!(ways.has(b"srv/a", b"file") && !ways.has(b"srv", b"file") && !ways.has(b"other", b"file"));
    }
}
