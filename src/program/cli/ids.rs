//! A repository, which may be in the environment, and snapshots in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The words with the repository at their beginning, and at least one behind it.
///
/// No ID contains a slash but `latest:PATH`. So with `PLEACH_REPO` set, the first word is the repository only if it
/// contains one.
pub(super) fn with_repo_first(mut words: Vec<OsString>, environment: Option<PathBuf>) -> Result<Vec<OsString>, String> {
    if let Some(repo) = environment
        && !words.first().is_some_and(|word| is_path(word))
    {
        words.insert(0, repo.into());
    }
    if words.len() < 2 {
        return Err("name the repository, then the snapshot (or set PLEACH_REPO)".into());
    }
    Ok(words)
}

fn is_path(word: &OsStr) -> bool {
    let word = word.as_bytes();
    word.contains(&b'/') && !word.starts_with(b"latest:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str], environment: Option<&str>) -> Result<Vec<OsString>, String> {
        with_repo_first(words.iter().map(OsString::from).collect(), environment.map(PathBuf::from))
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
