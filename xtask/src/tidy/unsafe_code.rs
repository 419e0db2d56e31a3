//! Check `unsafe`: only `src/sys` may allow unsafe code.
//!
//! The compiler denies it everywhere else (the lint `unsafe_code` in `Cargo.toml`); this check finds exceptions.

use super::files::Files;
use super::finding::Finding;
use super::scan;

/// Finds attributes that lift the lint, and unsafe blocks.
pub(crate) fn check(files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in files.rust().filter(|(path, _)| !path.starts_with("src/sys/") && *path != "src/sys.rs") {
        for (index, line) in scan::code(text).lines().enumerate() {
            let words = || line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let lifts = line.contains("#[") || line.contains("#![") || line.contains("cfg_attr");
            if lifts && words().any(|word| word == "unsafe_code") || words().any(|word| word == "unsafe") {
                let message = "unsafe code outside src/sys: move it there and give it a safe function";
                found.push(Finding::new(path, index + 1, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Files::of(&[(path, text)])).iter().map(|found| found.line).collect()
    }

    #[test]
    fn exceptions_are_found_outside_sys() {
        let text = "//! unsafe\n#![allow(unsafe_code)]\n#[expect(unsafe_code)]\nunsafe { f() }\nlet a = \"unsafe\";\n";
        assert_eq!(lines("src/fs/a.rs", text), [2, 3, 4]);
        assert_eq!(lines("src/sys/a.rs", text), [0; 0]);
    }
}
