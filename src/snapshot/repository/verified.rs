//! How far `verify --read` has come: a position on the ring of content hashes, in `.pleach/verified`. A missing or
//! malformed file means the beginning.
//!
//! Two runs at once do no harm. Each writes the end of a part that it has read from the position it found, so the
//! position never passes content that nobody read; at worst a part is read twice.

use super::dir::Dir;
use super::handle::Repository;
use crate::error::Result;
use rustix::fs::{Mode, OFlags};
use std::io::Read as _;

/// The file, in the control directory.
const VERIFIED: &str = "verified";
/// The beginning of the name of its next version.
const NEXT: &str = "verified.";
/// The beginning of such a file.
const SENTENCE: &str = "verified 1 next ";

/// The position at which the next run begins.
pub(crate) fn verified(repository: &Repository) -> u64 {
    let read = |dir: &Dir| {
        let mut text = String::new();
        dir.file(VERIFIED, OFlags::RDONLY, Mode::empty()).ok()?.take(256).read_to_string(&mut text).ok()?;
        parse(&text)
    };
    read(&repository.control).unwrap_or(0)
}

/// Replaces the position.
///
/// # Errors
/// If the control directory cannot be written to.
pub(crate) fn note_verified(repository: &Repository, next: u64) -> Result<()> {
    let dir = &repository.control;
    // A killed run may have left one. If it belongs to a run at the same time, that run repeats its part next time.
    for name in dir.names()?.iter().filter(|name| name.starts_with(NEXT.as_bytes())) {
        dir.unlink(super::dir::os(name))?;
    }
    let name = format!("{NEXT}{}", std::process::id());
    dir.write_new(&name, format(next))?;
    // Without a sync a power cut could leave an empty file, which only means the beginning.
    dir.replace(&name, VERIFIED)
}

pub(super) fn format(next: u64) -> String {
    format!("{SENTENCE}{next:016x}\n")
}

pub(super) fn parse(text: &str) -> Option<u64> {
    let digits = text.strip_prefix(SENTENCE)?.strip_suffix('\n')?;
    let is_plain = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_plain { u64::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_position_that_was_written_is_read() {
        assert_eq!(parse("verified 1 next 8000000000000001\n"), Some(0x8000_0000_0000_0001));
        for text in
            ["", "verified 1 next 8\n", "verified 2 next 8000000000000001\n", "verified 1 next +000000000000001\n"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_repository_keeps_the_position() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(&dir.path().join("repo")).unwrap();
        assert_eq!(verified(&repository), 0);
        for next in [7, u64::MAX] {
            note_verified(&repository, next).unwrap();
            assert_eq!(verified(&repository), next);
        }
        std::fs::write(dir.path().join("repo/.pleach/verified"), "nonsense").unwrap();
        std::fs::write(dir.path().join("repo/.pleach/verified.1"), "left behind").unwrap();
        assert_eq!(verified(&repository), 0);
        note_verified(&repository, 9).unwrap();
        assert!(!dir.path().join("repo/.pleach/verified.1").exists());
    }
}
