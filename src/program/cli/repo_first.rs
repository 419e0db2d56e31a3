//! The repository as the first of several words, or from the environment.

use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The words with the repository at their beginning. `others`: how many words follow it. `names` is what they are, for
/// the error.
///
/// No ID contains a slash but `latest:PATH`, and paths in snapshots are absolute. So if the number of words fits both
/// with and without a repository, the last word decides: a path makes it the optional one.
///
/// # Errors
/// If words are missing.
pub(super) fn with_repo(
    mut words: Vec<PathBuf>,
    environment: Option<PathBuf>,
    others: RangeInclusive<usize>,
    names: &str,
) -> Result<Vec<PathBuf>, String> {
    let is_path = |word: &PathBuf| {
        let word = word.as_os_str().as_bytes();
        word.contains(&b'/') && !word.starts_with(b"latest:")
    };
    let (least, most) = (*others.start(), *others.end());
    let number = words.len();
    let lacks_repo = number == least || number <= most && words.last().is_some_and(is_path);
    match environment {
        Some(repo) if lacks_repo => words.insert(0, repo),
        _ if number <= least => return Err(format!("name the repository, then {names} (or set PLEACH_REPO)")),
        _ => {}
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(words: &[&str], environment: Option<&str>, others: RangeInclusive<usize>) -> Option<Vec<PathBuf>> {
        let words = words.iter().map(PathBuf::from).collect();
        with_repo(words, environment.map(PathBuf::from), others, "the rest").ok()
    }

    fn paths(names: &[&str]) -> Option<Vec<PathBuf>> {
        Some(names.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn two_snapshots_and_perhaps_a_path_follow_the_repository() {
        for given in [&["/r", "a", "b"][..], &["/r", "a", "b", "/p"], &["/r", "a", "latest:/p"]] {
            assert_eq!(settled(given, None, 2..=3), paths(given));
            assert_eq!(settled(given, Some("/e"), 2..=3), paths(given));
        }
        assert_eq!(settled(&["a", "b"], Some("/e"), 2..=3), paths(&["/e", "a", "b"]));
        assert_eq!(settled(&["a", "b", "/p"], Some("/e"), 2..=3), paths(&["/e", "a", "b", "/p"]));
        assert_eq!(settled(&["a", "b"], None, 2..=3), None);
    }

    #[test]
    fn one_word_follows_the_repository() {
        assert_eq!(settled(&["/p"], Some("/e"), 1..=1), paths(&["/e", "/p"]));
        assert_eq!(settled(&["/r", "/p"], Some("/e"), 1..=1), paths(&["/r", "/p"]));
        assert_eq!(settled(&["/p"], None, 1..=1), None);
        assert_eq!(settled(&["latest", "/p"], Some("/e"), 2..=2), paths(&["/e", "latest", "/p"]));
        assert_eq!(settled(&["/r", "latest", "/p"], Some("/e"), 2..=2), paths(&["/r", "latest", "/p"]));
    }
}
