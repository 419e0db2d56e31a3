//! Check `pools`: only `src/util/pool.rs` uses rayon.
//!
//! Elsewhere it would be too easy to start its global pool, which panics if its threads cannot be started.

use super::files::Files;
use super::finding::Finding;
use super::scan;

/// The file that may.
const POOL: &str = "src/util/pool.rs";

/// Finds other uses in `src`.
pub(crate) fn check(files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in files.rust().filter(|(path, _)| path.starts_with("src/") && *path != POOL) {
        for (index, line) in scan::code(text).lines().enumerate() {
            if line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "rayon") {
                let message = format!("rayon outside {POOL}: use the functions there, or add one");
                found.push(Finding::new(path, index + 1, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_uses_are_found() {
        let text = "//! rayon\nuse rayon::prelude::*;\nlet a = \"rayon\";\nrayon::join(a, b);\n";
        let found = check(&Files::of(&[("src/fs/a.rs", text), (POOL, text), ("xtask/bench/src/a.rs", text)]));
        let places: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.line)).collect();
        assert_eq!(places, [("src/fs/a.rs", 2), ("src/fs/a.rs", 4)]);
    }
}
