//! What there is to find in a tree, found by reading it: what a dedupe is allowed to read is measured by that.

use anyhow::{Context, Result};
use pleach::hash;
use pleach::monitor::Silent;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What of each candidate may be read without its being a duplicate.
const SAMPLES: u64 = 64 << 10;

/// The files that may be equal to another, and those that are. Hard links to a file are one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    /// Files that have their size in common with another.
    pub(super) candidates: u64,
    /// Their bytes.
    pub(super) candidate_bytes: u64,
    /// Bytes of those that have their content in common with another, the first of each included: without reading that one
    /// too nobody can tell.
    pub(super) duplicate_bytes: u64,
}

impl Census {
    /// Reads all candidates below `tree`.
    pub(super) fn of(tree: &Path) -> Result<Census> {
        let mut sizes: HashMap<u64, Vec<PathBuf>> = HashMap::new();
        let (mut seen, mut dirs) = (HashSet::new(), vec![tree.to_path_buf()]);
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
                let entry = entry?;
                let meta = entry.metadata()?;
                if meta.is_dir() {
                    dirs.push(entry.path());
                } else if meta.is_file() && meta.len() > 0 && seen.insert((meta.dev(), meta.ino())) {
                    sizes.entry(meta.len()).or_default().push(entry.path());
                }
            }
        }
        let mut census = Census::default();
        for (size, paths) in sizes.into_iter().filter(|(_, paths)| paths.len() > 1) {
            census.candidates += paths.len() as u64;
            census.candidate_bytes += paths.len() as u64 * size;
            let mut contents: HashMap<[u8; 32], u64> = HashMap::new();
            for path in paths {
                let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
                *contents.entry(hash::any_file(&file, size, &Silent)?.0).or_default() += 1;
            }
            census.duplicate_bytes += contents.values().filter(|&&files| files > 1).sum::<u64>() * size;
        }
        Ok(census)
    }

    /// The most that a dedupe of whole files may read: 1.1 × (duplicates + 64 KiB × candidates).
    pub(super) fn limit(&self) -> u64 {
        (self.duplicate_bytes + SAMPLES * self.candidates) * 11 / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_share_a_size_and_duplicates_a_content() {
        let dir = xtask::command::target_dir().join(format!("xtask/census-{}", std::process::id()));
        fs::create_dir_all(dir.join("below")).unwrap();
        for (name, content) in [("a", "same"), ("below/b", "same"), ("c", "else"), ("d", "longer"), ("e", "")] {
            fs::write(dir.join(name), content).unwrap();
        }
        fs::hard_link(dir.join("d"), dir.join("below/d")).unwrap();
        let census = Census::of(&dir);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(census.unwrap(), Census { candidates: 3, candidate_bytes: 12, duplicate_bytes: 8 });
    }

    #[test]
    fn the_limit_is_the_formula() {
        let census = Census { candidates: 2, candidate_bytes: 40, duplicate_bytes: 20 };
        assert_eq!(census.limit(), (20 + 2 * 65_536) * 11 / 10);
    }
}
