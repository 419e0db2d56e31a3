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
        return Err(wrong("it is not absolute").hint("write it as in the sources, as in /home/ann"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normal_and_absolute() {
        let normal = |path| normal("restore", Path::new(path));
        assert_eq!(normal("//home/./ann/").unwrap(), b"home/ann");
        assert_eq!(normal("/").unwrap(), b"");
        assert!(normal("home").is_err() && normal("/home/..").is_err());
    }
}
