//! Check `names`: modules and types of `src` have standard names, not private ones.

use super::files::Files;
use super::finding::Finding;
use super::scan;

/// Private names, and the standard terms for them.
const PRIVATE: &[(&str, &str)] = &[
    ("ahead", "writeback"),
    ("aside", "temp_file"),
    ("beneath", "openat"),
    ("cloned", "recheck"),
    ("crew", "parallel"),
    ("finely", "CowExtentHint"),
    ("ground", "inherited"),
    ("known", "content_index"),
    ("ladder", "strategy"),
    ("let_go", "rewrite"),
    ("moment", "timestamp"),
    ("passing", "hash_tee"),
    ("positioned", "pread"),
    ("session", "mount_id"),
    ("turns", "semaphore"),
    ("uncached", "direct_io"),
    ("weave", "diff"),
];

/// Finds files, inline modules and types with such names.
pub(crate) fn check(files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in files.rust().filter(|(path, _)| path.starts_with("src/")) {
        let names = path.trim_end_matches(".rs").split('/');
        found.extend(names.filter_map(|name| problem(path, 1, name)));
        for (index, line) in scan::code(text).lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            while let Some(word) = words.next() {
                if ["struct", "enum", "trait", "type", "union"].contains(&word) {
                    found.extend(words.next().and_then(|name| problem(path, index + 1, name)));
                }
            }
        }
    }
    found
}

fn problem(path: &str, line: usize, name: &str) -> Option<Finding> {
    let plain = snake_case(name);
    let (_, standard) = PRIVATE.iter().find(|(private, _)| *private == plain)?;
    Some(Finding::new(path, line, format!("`{name}` is a private term: say `{standard}`, or what fits here")))
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_names_of_files_and_types_are_found() {
        let found = check(&Files::of(&[
            ("src/put/let_go.rs", ""),
            ("src/crew/a.rs", ""),
            ("src/a.rs", "let known = 1;\npub struct LetGo;\n// struct Crew\nenum Knowns {}\n"),
            ("tests/crew.rs", ""),
        ]));
        let places: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.line)).collect();
        assert_eq!(places, [("src/a.rs", 2), ("src/crew/a.rs", 1), ("src/put/let_go.rs", 1)]);
        assert_eq!(found[0].message, "`LetGo` is a private term: say `rewrite`, or what fits here");
    }
}
