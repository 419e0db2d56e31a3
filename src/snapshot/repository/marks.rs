//! Tags and pins that were changed after a snapshot was made, in `.pleach/marks/NAME`. The manifest never changes, so
//! the tags in such a file replace those of the manifest. A pinned snapshot is not removed.
//!
//! A file that cannot be read counts as a pin: nothing is removed because of a damaged file.
//!
//! Functions that write need the repository's lock.

use super::clearing::Clearing;
use super::dir::{Dir, os};
use super::handle::Repository;
use super::trash::clear_entry;
use crate::error::{Error, ErrorKind, Result};
use crate::tree::deletion::FreshNames;
use rustix::fs::{Mode, OFlags};
use std::io::{self, Read as _};

/// The directory of these files, in the control directory.
pub(super) const MARKS: &str = "marks";
/// The first line of such a file.
const VERSION: &str = "marks 1";
/// The name of a file until it is complete. No snapshot's name begins so.
const DRAFT: &str = ".new";
/// The largest file that is read. A manifest's header, with all its tags, has the same limit.
const LARGEST: u64 = 8 << 20;

/// The tags of a snapshot, and whether it is pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The tags, in the order in which they were added.
    pub tags: Vec<String>,
    /// Whether it is pinned.
    pub pinned: bool,
}

/// The marks of a snapshot that has these tags in its manifest.
///
/// # Errors
/// If they cannot be read or are malformed. Then the snapshot counts as pinned.
pub(crate) fn marks(repository: &Repository, name: &str, tags: &[String]) -> Result<Marks> {
    let unchanged = || Marks { tags: tags.to_vec(), pinned: false };
    let Some(dir) = dir(repository)? else {
        if repository.control.stat(MARKS)?.is_none() {
            return Ok(unchanged());
        }
        let error = Error::new(ErrorKind::Damage, "read the tags in").at(repository.control.join(MARKS));
        return Err(error.hint("it is not a directory, so every snapshot counts as pinned; remove it"));
    };
    if dir.stat(name)?.is_none() {
        return Ok(unchanged());
    }
    let mut text = Vec::new();
    let file = dir.file(name, OFlags::RDONLY, Mode::empty())?;
    file.take(LARGEST + 1).read_to_end(&mut text).map_err(|cause| Error::io("read", dir.join(name), cause))?;
    let parsed = if text.len() as u64 > LARGEST { None } else { parse(&text) };
    parsed.ok_or_else(|| {
        let cause = io::Error::new(io::ErrorKind::InvalidData, "it is malformed");
        let error = Error::new(ErrorKind::Damage, "read the tags in").at(dir.join(name)).because(cause);
        error.hint("the snapshot counts as pinned; delete this file, then set tags and pin again")
    })
}

/// Replaces the marks of a snapshot. They are on the disk when this returns.
pub(crate) fn set_marks(repository: &Repository, name: &str, marks: &Marks) -> Result<()> {
    let dir = repository.control.make_dir(MARKS)?;
    dir.unlink(DRAFT)?;
    let file = dir.write_new(DRAFT, format(marks))?;
    if let Err(cause) = file.sync_all() {
        dir.unlink(DRAFT)?;
        return Err(Error::io("write", dir.join(name), cause));
    }
    dir.replace(DRAFT, name)?;
    sync_marks(repository)
}

/// Writes marks to the disk that this run or an earlier one has set.
///
/// # Errors
/// The marks are in effect nevertheless.
pub(crate) fn sync_marks(repository: &Repository) -> Result<()> {
    let Some(dir) = dir(repository)? else { return Ok(()) };
    // The directory of the marks may be new.
    dir.sync()
        .and_then(|()| repository.control.sync())
        .map_err(|error| error.hint("the change was made, but may not survive a power cut; run the same command again"))
}

/// Removes the marks of snapshots that no longer exist.
pub(super) fn clear(repository: &Repository, clearing: &Clearing<'_>) {
    let Some(Some(dir)) = clearing.note(dir(repository)) else { return };
    let fresh = FreshNames::new();
    for name in clearing.note(dir.names()).unwrap_or_default() {
        if clearing.note(repository.is_gone(os(&name))).unwrap_or(false) {
            clearing.note(clear_entry(repository, &dir, &name, &fresh));
        }
    }
}

/// Removes the marks of one snapshot.
pub(super) fn remove(repository: &Repository, name: &str) -> Result<()> {
    dir(repository)?.map_or(Ok(()), |dir| clear_entry(repository, &dir, name.as_bytes(), &FreshNames::new()))
}

/// Refuses text that cannot be a tag. Lists of tags are separated by commas.
///
/// # Errors
/// Kind `Usage`, with the rule that the tag breaks.
pub(crate) fn check_tag(tag: &str) -> Result<()> {
    let rule = if tag.is_empty() {
        "it is empty"
    } else if tag.contains(',') {
        "it contains a comma"
    } else if tag.chars().any(char::is_control) {
        "it contains a control character"
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("use the tag '{}': {rule}", crate::util::text::escape(tag.as_ref()))))
}

fn dir(repository: &Repository) -> Result<Option<Dir>> {
    if repository.control.has_dir(MARKS)? { repository.control.dir(MARKS).map(Some) } else { Ok(None) }
}

pub(super) fn format(marks: &Marks) -> String {
    let mut text = format!("{VERSION}\npinned {}\n", marks.pinned);
    for tag in &marks.tags {
        text += &format!("tag {}\n", tag.replace('\\', "\\\\").replace('\n', "\\n"));
    }
    text
}

pub(super) fn parse(text: &[u8]) -> Option<Marks> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
    let mut lines = text.split('\n');
    if lines.next() != Some(VERSION) {
        return None;
    }
    let pinned = lines.next()?.strip_prefix("pinned ")?.parse().ok()?;
    let tags = lines.map(|line| unescape(line.strip_prefix("tag ")?)).collect::<Option<_>>()?;
    Some(Marks { tags, pinned })
}

fn unescape(text: &str) -> Option<String> {
    let mut tag = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        tag.push(match c {
            '\\' => match rest.next()? {
                '\\' => '\\',
                'n' => '\n',
                _ => return None,
            },
            c => c,
        });
    }
    Some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_marks_are_read_as_they_were_written(tags in prop::collection::vec(".*", 0..4), pinned in any::<bool>()) {
            let marks = Marks { tags, pinned };
            prop_assert_eq!(parse(format(&marks).as_bytes()), Some(marks));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            parse(&bytes);
        }
    }

    #[test]
    fn other_versions_and_cut_files_are_refused() {
        assert_eq!(parse(b"marks 1\npinned true\ntag a b\n"), Some(Marks { tags: vec!["a b".into()], pinned: true }));
        for text in [
            "",
            "marks 2\npinned true\n",
            "marks 1\n",
            "marks 1\npinned true",
            "marks 1\npinned 1\n",
            "marks 1\npinned false\na\n",
            "marks 1\npinned false\ntag a\\x\n",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn tags_are_printable_and_contain_no_comma() {
        for tag in ["a", "before upgrade", "+", "-x", "ä"] {
            assert!(check_tag(tag).is_ok(), "{tag}");
        }
        for tag in ["", "a,b", "a\nb", "\u{9b}"] {
            assert!(check_tag(tag).is_err(), "{tag:?}");
        }
    }
}
