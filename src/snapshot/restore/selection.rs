//! Which part of a snapshot is restored.

use crate::error::{Error, Result};
use crate::snapshot::manifest::{Reader, compare_paths};
use crate::tree::walk::absolute;
use crate::util::text;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// How many missing paths an error names.
const SHOWN: usize = 5;

/// The parts to restore, in the order of the manifest, none inside another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection(Vec<Part>);

/// A subtree or an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A directory and everything below it. The root's path is empty.
    Subtree(Vec<u8>),
    /// One entry: its directory and its name.
    Entry(Vec<u8>, Vec<u8>),
}

impl Selection {
    /// Finds the requested paths in a snapshot. Without paths, all of it is selected.
    pub(super) fn resolve(manifest: &Reader, snapshot: &str, paths: &[PathBuf]) -> Result<Selection> {
        if paths.is_empty() {
            return Ok(Selection(vec![Part::Subtree(Vec::new())]));
        }
        let mut wanted = paths.iter().map(|path| normal(path)).collect::<Result<Vec<_>>>()?;
        wanted.sort_by(|a, b| compare_paths(a, b));
        wanted.dedup_by(|later, earlier| is_within(later, earlier));
        let mut parts = Vec::new();
        let mut missing = Vec::new();
        for path in wanted {
            match find(manifest, &path)? {
                Some(part) => parts.push(part),
                None => missing.push(text::path(&absolute(&path))),
            }
        }
        if missing.is_empty() {
            return Ok(Selection(parts));
        }
        let more = missing.len().saturating_sub(SHOWN);
        missing.truncate(SHOWN);
        if more > 0 {
            missing.push(format!("{more} more"));
        }
        Err(Error::failed(format!("find {} in the snapshot {snapshot}", missing.join(", ")))
            .hint("give absolute paths, as in the sources"))
    }

    /// Whether the whole snapshot is selected.
    pub(super) fn is_all(&self) -> bool {
        self.0 == [Part::Subtree(Vec::new())]
    }

    /// The parts.
    pub(super) fn parts(&self) -> &[Part] {
        &self.0
    }
}

fn find(manifest: &Reader, path: &[u8]) -> Result<Option<Part>> {
    if path.is_empty() || manifest.directory(path)?.is_some() {
        return Ok(Some(Part::Subtree(path.to_vec())));
    }
    let (directory, name) = split(path);
    let Some(mut cursor) = manifest.entries_from(directory, name)? else { return Ok(None) };
    Ok(cursor.seek(name)?.map(|entry| Part::Entry(directory.to_vec(), entry.name)))
}

/// An absolute path as the manifest has it.
fn normal(path: &Path) -> Result<Vec<u8>> {
    let wrong = |rule: &str| Error::usage(format!("restore the path {}: {rule}", text::path(path)));
    if !path.is_absolute() {
        return Err(wrong("it is not absolute"));
    }
    let mut out = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if out.is_empty() => out.extend_from_slice(name.as_bytes()),
            Component::Normal(name) => {
                out.push(b'/');
                out.extend_from_slice(name.as_bytes());
            }
            Component::ParentDir => return Err(wrong("it goes through '..'")),
            _ => {}
        }
    }
    Ok(out)
}

/// Whether a path is another or lies below it.
pub(super) fn is_within(path: &[u8], directory: &[u8]) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// A path's directory and its last name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// The path of an entry.
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normal_absolute_and_none_lies_in_another() {
        assert_eq!(normal(Path::new("//home/./ann/")).unwrap(), b"home/ann");
        assert_eq!(normal(Path::new("/")).unwrap(), b"");
        assert!(normal(Path::new("home")).is_err() && normal(Path::new("/home/..")).is_err());
        assert!(is_within(b"a/b", b"a") && is_within(b"a", b"a") && is_within(b"a", b""));
        assert!(!is_within(b"a-b", b"a") && !is_within(b"a", b"a/b"));
        assert_eq!(split(&join(b"a/b", b"c")), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(&join(b"", b"c")), (&b""[..], &b"c"[..]));
    }
}
