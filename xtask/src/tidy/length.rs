//! Check `length`: no Rust file has more than 400 lines before its unit tests.

use super::files::Files;
use super::finding::Finding;

const LIMIT: usize = 400;

/// Finds files that are too long.
pub(crate) fn check(files: &Files) -> Vec<Finding> {
    let lengths = files.rust().map(|(path, text)| (path, lines_before_tests(text)));
    let long = lengths.filter(|(_, lines)| *lines > LIMIT);
    long.map(|(path, lines)| {
        let message = format!("{lines} lines before the tests, {LIMIT} are allowed: split the file");
        Finding::new(path, LIMIT + 1, message)
    })
    .collect()
}

/// The lines before `#[cfg(test)] mod tests`, or all.
pub(crate) fn lines_before_tests(text: &str) -> usize {
    let lines: Vec<_> = text.lines().collect();
    let is_start = |at: &usize| {
        let after = lines[at + 1..].iter().find(|line| !line.starts_with("#["));
        lines[*at] == "#[cfg(test)]" && after.is_some_and(|line| line.starts_with("mod tests"))
    };
    (0..lines.len()).find(is_start).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_before_the_tests_count() {
        let code = "fn f() {}\n".repeat(400);
        let tests = "#[cfg(test)]\nmod tests {\n}\n".to_owned() + &"// test\n".repeat(500);
        assert_eq!(check(&Files::of(&[("src/a.rs", &(code.clone() + &tests))])), []);
        let found = check(&Files::of(&[("src/a.rs", &(code + "fn g() {}\n" + &tests))]));
        assert_eq!(found[0].message, "401 lines before the tests, 400 are allowed: split the file");
    }

    #[test]
    fn a_lone_item_of_the_tests_does_not_end_the_file() {
        assert_eq!(lines_before_tests("#[cfg(test)]\nuse a::b;\nfn f() {}\n"), 3);
    }
}
