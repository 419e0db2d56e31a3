//! The repository as the first of several words, or from the environment. No ID contains a slash but `latest:PATH`,
//! and paths in snapshots are absolute: so a word that must be a path shows whether the repository is given.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The words with the repository at their beginning. `others`: how many words follow it. `names` is what they are, for
/// the error.
///
/// If the number of words fits both with and without a repository, the last word decides: a path makes it the optional
/// one.
///
/// # Errors
/// If words are missing.
pub(super) fn with_repo(
    mut words: Vec<PathBuf>,
    environment: Option<PathBuf>,
    others: RangeInclusive<usize>,
    names: &str,
) -> Result<Vec<PathBuf>, String> {
    let (least, most) = (*others.start(), *others.end());
    let number = words.len();
    let lacks_repo = number == least || number <= most && words.last().is_some_and(is_path);
    match environment {
        Some(repo) if lacks_repo => words.insert(0, repo),
        _ if number <= least => return Err(format!("name the repository, then {names} ({})", or_set_it())),
        _ => {}
    }
    Ok(words)
}

/// The words with the repository at their beginning, and at least `least` IDs behind it. Any number may follow.
///
/// With a repository in the environment, the first word is the repository only if it is a path.
///
/// # Errors
/// If words are missing.
pub(super) fn with_repo_before_ids<W: AsRef<OsStr> + From<PathBuf>>(
    mut words: Vec<W>,
    environment: Option<PathBuf>,
    least: usize,
) -> Result<Vec<W>, String> {
    if let Some(repo) = environment
        && !words.first().is_some_and(is_path)
    {
        words.insert(0, repo.into());
    }
    if words.len() > least {
        return Ok(words);
    }
    let missing = if least == 0 { "name the repository" } else { "name the repository, then the snapshot" };
    Err(format!("{missing} ({})", or_set_it()))
}

/// The other way to name the repository, for the error of a missing one.
pub(super) fn or_set_it() -> &'static str {
    match std::env::var_os("PLEACH_REPO") {
        Some(repo) if repo.is_empty() => "PLEACH_REPO is empty",
        _ => "or set PLEACH_REPO",
    }
}

/// Whether a word is a path, not an ID.
pub(crate) fn is_path(word: &impl AsRef<OsStr>) -> bool {
    let word = word.as_ref().as_bytes();
    word.contains(&b'/') && !word.starts_with(b"latest:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

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

    fn of(words: &[&str], environment: Option<&str>) -> Result<Vec<OsString>, String> {
        with_repo_before_ids(words.iter().map(OsString::from).collect(), environment.map(PathBuf::from), 1)
    }

    #[test]
    fn the_first_word_is_the_repository_unless_the_environment_names_it() {
        let words = |words: &[&str]| Ok(words.iter().map(OsString::from).collect());
        assert_eq!(of(&["r", "a", "b"], None), words(&["r", "a", "b"]));
        assert_eq!(of(&["a", "b"], Some("/e")), words(&["/e", "a", "b"]));
        assert_eq!(of(&["./r", "a"], Some("/e")), words(&["./r", "a"]));
        assert_eq!(of(&["latest:/home"], Some("/e")), words(&["/e", "latest:/home"]));
        assert!(of(&["a"], None).is_err() && of(&["/r"], Some("/e")).is_err());
    }
}
