//! Check `headers`: every Rust file begins with a `//!` comment.

use super::files::Files;
use super::finding::Finding;

/// Finds files without one.
pub(crate) fn check(files: &Files) -> Vec<Finding> {
    let bare = files.rust().filter(|(_, text)| !text.starts_with("//!"));
    let message = "the file does not begin with `//!`: say what lives here and what does not";
    bare.map(|(path, _)| Finding::new(path, 1, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_found() {
        let files =
            Files::of(&[("src/a.rs", "//! A.\n"), ("tests/b.rs", "use a::b;\n//! Late.\n"), ("xtask/c.rs", "")]);
        assert_eq!(
            check(&files).iter().map(|found| found.path.as_str()).collect::<Vec<_>>(),
            ["tests/b.rs", "xtask/c.rs"]
        );
    }
}
