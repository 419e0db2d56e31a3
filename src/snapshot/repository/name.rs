//! The rules for names of snapshots.

use super::layout::{LATEST, LIVE};
use crate::error::{Error, Result};
use crate::util::text;
use std::ffi::OsStr;

/// The longest name that filesystems support, in bytes.
const LONGEST: usize = 255;

/// Refuses text that cannot be a snapshot's name. The name is a directory's name in the repository, is shown on
/// terminals, and is one of the forms of an ID: `latest:` begins another form.
///
/// # Errors
/// Kind `Usage`, with the rule that the name breaks.
pub(super) fn check_name(name: &str) -> Result<()> {
    let rule = if name.is_empty() {
        "it is empty"
    } else if name.starts_with('.') {
        "it begins with a dot"
    } else if name.starts_with('-') {
        "it begins with a hyphen, like an option"
    } else if name.contains('/') {
        "it contains a slash"
    } else if name.chars().any(char::is_control) {
        "it contains a control character"
    } else if name.len() > LONGEST {
        "it is longer than 255 bytes"
    } else if name == LATEST {
        "it is the name of the link to the newest"
    } else if name.starts_with("latest:") {
        "`latest:PATH` means the newest snapshot that has PATH"
    } else if name == "lost+found" {
        "filesystems have a directory of this name"
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("call a snapshot '{}': {rule}", text::escape(OsStr::new(name)))))
}

/// Whether a snapshot from elsewhere can have this name.
pub(crate) fn is_snapshot_name(name: &str) -> bool {
    name != LIVE && check_name(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_printable_component_that_hides_nothing() {
        for name in ["2026-11-20T020000Z", "before upgrade", "ä", "at 02:00", "latest-but-one", &"x".repeat(255)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in
            ["", ".", "..", ".x", "-x", "a/b", "a\nb", "latest", "latest:x", "latest:", "lost+found", &"x".repeat(256)]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
