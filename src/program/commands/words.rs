//! `pleach __complete SHELL -- WORD...`, which the scripts of `pleach completions` call: candidates for the last word.
//!
//! The first line of the output names their kind: `static` (the script knows them), `directories` (the shell finds
//! them; the following lines are further candidates), `words`, or `paths`. The command runs while the user types, so it
//! reports no error and takes no lock.

use crate::program::cli::words::{Wanted, wanted};
use crate::program::profile;
use crate::util::text;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The hidden command's name.
pub(crate) const NAME: &str = "__complete";

/// Prints the candidates; `args` begin after the command's name.
pub(crate) fn answer(args: &[OsString]) {
    let (shell, words) = match args {
        [shell, dashes, words @ ..] if dashes == "--" => (shell, words),
        _ => return,
    };
    // bash passes words as they were typed, the other shells without quotes.
    let plain = |word: &OsString| if shell == "bash" { without_quotes(word) } else { word.clone() };
    let words: Vec<_> = words.iter().map(plain).collect();
    let environment = std::env::var_os("PLEACH_REPO").filter(|repo| !repo.is_empty()).map(PathBuf::from);
    let mut current = words.last().cloned().unwrap_or_default();
    // bash makes a separate word of the sign in `--name=` while nothing follows it.
    if shell == "bash" && current == "=" {
        current = OsString::new();
    }
    let (kind, candidates) = candidates(wanted(&words, environment), &current);
    let starts = |name: &String| name.as_bytes().starts_with(current.as_bytes());
    let mut lines = vec![kind.to_string()];
    lines.extend(candidates.into_iter().filter(starts));
    // It does not matter if the shell no longer listens.
    let _ = std::io::stdout().write_all((lines.join("\n") + "\n").as_bytes());
}

/// The candidates, and their kind.
fn candidates(wanted: Wanted, current: &OsStr) -> (&'static str, Vec<String>) {
    match wanted {
        Wanted::Static => ("static", Vec::new()),
        Wanted::Repository => ("directories", Vec::new()),
        Wanted::Id(repo) => ("words", snapshots(&at_home(&repo))),
        Wanted::IdOfUnknown => ("words", Vec::new()),
        Wanted::RepositoryOrId(repo) => ("directories", snapshots(&repo)),
        Wanted::Profile => ("words", profile::names()),
        Wanted::PathIn(repo, id) => ("paths", paths(&at_home(&repo), &id, current)),
        Wanted::Value(option, value) => {
            let (kind, values) = candidates(*value, current);
            (kind, values.into_iter().map(|value| option.clone() + &value).collect())
        }
    }
}

/// The names of a repository's snapshots that can be typed.
fn snapshots(repo: &Path) -> Vec<String> {
    if !repo.join(".pleach").is_dir() {
        return Vec::new();
    }
    let is_snapshot = |name: &String| !name.starts_with('.') && repo.join(name).is_dir();
    names(repo).into_iter().filter(is_snapshot).collect()
}

/// The absolute paths below the directory of `current` in a snapshot; directories end in a slash.
fn paths(repo: &Path, id: &OsStr, current: &OsStr) -> Vec<String> {
    let Some(current) = current.to_str().filter(|current| current.is_empty() || current.starts_with('/')) else {
        return Vec::new();
    };
    let above = current.rsplit_once('/').map_or("", |(above, _)| above);
    let ids: Vec<_> = snapshots(repo).into_iter().filter(|name| name.as_bytes().starts_with(id.as_bytes())).collect();
    let name = ids.iter().find(|name| id == name.as_str()).or(if ids.len() == 1 { ids.first() } else { None });
    let Some(name) = name else { return Vec::new() };
    let mut directory = repo.join(name);
    for part in above.split('/').filter(|part| !part.is_empty()) {
        directory.push(part);
        // Symbolic links are not followed, so no path leads out of the snapshot.
        if part == ".." || !fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir()) {
            return Vec::new();
        }
    }
    let of_entry = |entry: String| {
        let slash =
            if fs::symlink_metadata(directory.join(&entry)).is_ok_and(|found| found.is_dir()) { "/" } else { "" };
        format!("{above}/{entry}{slash}")
    };
    names(&directory).into_iter().map(of_entry).collect()
}

/// The sorted names in a directory, without those that a terminal could interpret or that are not UTF-8.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| !name.chars().any(text::is_unprintable)).collect();
    names.sort();
    names
}

/// Replaces a `~` that the shell has not replaced yet.
fn at_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_path_buf(),
    }
}

/// A word without the quotes and backslashes of the shell; an open quote ends with the word.
fn without_quotes(word: &OsStr) -> OsString {
    let (mut plain, mut quote) = (Vec::new(), None);
    let mut bytes = word.as_bytes().iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            (None | Some(b'"'), b'\\') => plain.extend(bytes.next()),
            _ => plain.push(byte),
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_quotes() {
        for (word, plain) in [("a\\ b", "a b"), ("'a b'c", "a bc"), ("\"a\\\"b", "a\"b"), ("'a\\b", "a\\b"), ("", "")] {
            assert_eq!(without_quotes(OsStr::new(word)), plain, "{word}");
        }
    }

    #[test]
    fn paths_are_those_of_the_snapshot_and_no_link_leads_out() {
        let repo = tempfile::tempdir().unwrap();
        let snapshot = repo.path().join("2026-11-20T020000Z");
        fs::create_dir_all(repo.path().join(".pleach")).unwrap();
        fs::create_dir_all(snapshot.join("home/ann")).unwrap();
        fs::write(snapshot.join("home/ann/notes.txt"), "").unwrap();
        fs::write(snapshot.join("home/ann/evil\x1b[31m"), "").unwrap();
        std::os::unix::fs::symlink("/", snapshot.join("home/out")).unwrap();
        let of = |id: &str, current: &str| paths(repo.path(), OsStr::new(id), OsStr::new(current));
        assert_eq!(snapshots(repo.path()), ["2026-11-20T020000Z"]);
        assert_eq!(of("2026", ""), ["/home/"]);
        assert_eq!(of("2026", "/home/a"), ["/home/ann/", "/home/out"]);
        assert_eq!(of("2026-11-20T020000Z", "/home/ann/"), ["/home/ann/notes.txt"]);
        for (id, current) in [("2026", "/home/out/"), ("2026", "/../"), ("2027", "/"), ("2026", "home")] {
            assert_eq!(of(id, current), [""; 0], "{id} {current}");
        }
    }
}
