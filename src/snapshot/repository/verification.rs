//! The result of the last verification, in `.pleach/verification`: when it was, what it covered, and the first damage
//! and problems. Only for reports: a missing or malformed file means that none is known.

use super::handle::Repository;
use super::problems::{line, note};
use crate::error::Result;
use crate::monitor::{MOST, Note};
use crate::snapshot::manifest::Time;
use rustix::fs::{Mode, OFlags};
use std::io::Read as _;

/// The file, in the control directory.
const VERIFICATION: &str = "verification";
/// The beginning of the name of its next version.
const NEXT: &str = "verification.";
/// The beginning of such a file.
const SENTENCE: &str = "verification 1 ";
/// The largest part of a file that is read.
const LARGEST: u64 = 512 << 10;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Verification {
    /// When it ended.
    pub ended: Time,
    /// Whether all snapshots were verified.
    pub is_all: bool,
    /// The percentage of the content that was read: 0 if only the status of entries was compared.
    pub percent: f64,
    /// The number of snapshots.
    pub snapshots: u64,
    /// Regular files, each name in each snapshot.
    pub files: u64,
    /// Content that was compared with its hash, in bytes, as often as files have it.
    pub checked_bytes: u64,
    /// Damaged entries.
    pub damaged: u64,
    /// Damaged entries that were repaired.
    pub repaired: u64,
    /// Entries that could not be verified.
    pub errors: u64,
    /// The first damage.
    pub first_damage: Vec<Note>,
    /// The first problems.
    pub first_problems: Vec<Note>,
}

/// The result of the last verification, if it was recorded.
pub(crate) fn verification(repository: &Repository) -> Option<Verification> {
    let mut text = Vec::new();
    let file = repository.control.file(VERIFICATION, OFlags::RDONLY, Mode::empty()).ok()?;
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    parse(&String::from_utf8_lossy(&text))
}

/// Replaces the result of the last verification. It is only informational: a repository that cannot be written to keeps
/// the old one.
pub(crate) fn note_verification(repository: &Repository, verification: &Verification) {
    let _ = replace(repository, &format(verification));
}

fn replace(repository: &Repository, text: &str) -> Result<()> {
    let dir = &repository.control;
    // A killed run may have left one. A run at the same time then records nothing.
    for name in dir.names()?.iter().filter(|name| name.starts_with(NEXT.as_bytes())) {
        dir.unlink(super::dir::os(name))?;
    }
    let name = format!("{NEXT}{}", std::process::id());
    dir.write_new(&name, text)?;
    dir.replace(&name, VERIFICATION)
}

pub(super) fn format(verification: &Verification) -> String {
    let Verification { ended, is_all, percent, snapshots, files, checked_bytes, damaged, repaired, errors, .. } =
        verification;
    let mut text = format!(
        "{SENTENCE}ended {} all {is_all} percent {percent} snapshots {snapshots} files {files} bytes {checked_bytes} \
         damaged {damaged} repaired {repaired} errors {errors}\n",
        ended.seconds
    );
    for (kind, notes) in [("damage", &verification.first_damage), ("error", &verification.first_problems)] {
        notes.iter().take(MOST).for_each(|note| text += &format!("{kind} {}", line(note)));
    }
    text
}

pub(super) fn parse(text: &str) -> Option<Verification> {
    let mut lines = text.split('\n');
    let words: Vec<&str> = lines.next()?.strip_prefix(SENTENCE)?.split(' ').collect();
    let [
        "ended",
        ended,
        "all",
        is_all,
        "percent",
        percent,
        "snapshots",
        snapshots,
        "files",
        files,
        "bytes",
        bytes,
        "damaged",
        damaged,
        "repaired",
        repaired,
        "errors",
        errors,
    ] = words[..]
    else {
        return None;
    };
    let mut verification = Verification {
        ended: Time { seconds: ended.parse().ok()?, nanos: 0 },
        is_all: is_all.parse().ok()?,
        percent: percent.parse().ok().filter(|percent| (0.0..=100.0).contains(percent))?,
        snapshots: snapshots.parse().ok()?,
        files: files.parse().ok()?,
        checked_bytes: bytes.parse().ok()?,
        damaged: damaged.parse().ok()?,
        repaired: repaired.parse().ok()?,
        errors: errors.parse().ok()?,
        ..Verification::default()
    };
    for (kind, rest) in lines.filter_map(|line| line.split_once(' ')) {
        let notes = match kind {
            "damage" => &mut verification.first_damage,
            "error" => &mut verification.first_problems,
            _ => continue,
        };
        notes.extend(note(rest).filter(|_| notes.len() < MOST));
    }
    Some(verification)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_verification_is_read_as_it_was_written() {
        let verification = Verification {
            ended: Time { seconds: 1_764_000_000, nanos: 0 },
            is_all: true,
            percent: 2.5,
            snapshots: 60,
            files: 7,
            checked_bytes: 1 << 40,
            damaged: 2,
            repaired: 1,
            errors: 3,
            first_damage: vec![Note::new("content", "monday: /a b")],
            first_problems: vec![Note::new("io-error", "cannot read /c")],
        };
        assert_eq!(parse(&format(&verification)), Some(verification));
        for text in ["", "verification 2 ended 1", "verification 1 ended 1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_repository_keeps_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(&dir.path().join("repo")).unwrap();
        assert_eq!(verification(&repository), None);
        for files in [1, 2] {
            note_verification(&repository, &Verification { files, ..Verification::default() });
            assert_eq!(verification(&repository).map(|verification| verification.files), Some(files));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            parse(&format!("{SENTENCE}{text}"));
        }
    }
}
