//! Paths of the sources as the manifest has them: absolute, without the leading slash.

use crate::error::{Error, Result};
use crate::util::text;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// An absolute path as the manifest has it. `verb` is what the command does with the path, for the error.
///
/// # Errors
/// Kind `Usage` for a path that is relative or goes through `..`.
pub(super) fn normal(verb: &str, path: &Path) -> Result<Vec<u8>> {
    let wrong = |rule: &str| Error::usage(format!("{verb} the path {}: {rule}", text::path(path)));
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
        let normal = |path| normal("restore", Path::new(path));
        assert_eq!(normal("//home/./ann/").unwrap(), b"home/ann");
        assert_eq!(normal("/").unwrap(), b"");
        assert!(normal("home").is_err() && normal("/home/..").is_err());
        assert!(is_within(b"a/b", b"a") && is_within(b"a", b"a") && is_within(b"a", b""));
        assert!(!is_within(b"a-b", b"a") && !is_within(b"a", b"a/b"));
        assert_eq!(split(&join(b"a/b", b"c")), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(&join(b"", b"c")), (&b""[..], &b"c"[..]));
    }
}
