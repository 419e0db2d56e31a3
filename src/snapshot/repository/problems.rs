//! The problems of the run that made a snapshot, in `.pleach/problems/NAME`: how many there were, and the first ones.
//! A snapshot without such a file had none, or it was not recorded. Its manifest has the number of skipped entries.

use super::handle::Repository;
use crate::error::Error;
use crate::monitor::{MOST, Note};
use rustix::fs::{Mode, OFlags};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};

/// The directory of these files, in the control directory.
pub(super) const PROBLEMS: &str = "problems";
/// The beginning of such a file.
const SENTENCE: &str = "problems 1 all ";
/// The largest part of a file that is read.
const LARGEST: u64 = 256 << 10;

/// The problems of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problems {
    /// All of them.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Note>,
}

/// The recorded problems of the run that made a snapshot.
pub(crate) fn problems(repository: &Repository, name: &str) -> Option<Problems> {
    let mut text = Vec::new();
    let file = repository.control.dir_if_any(PROBLEMS)?.file(name, OFlags::RDONLY, Mode::empty()).ok()?;
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    parse(&String::from_utf8_lossy(&text))
}

/// Records the problems of the run that made a snapshot. They are only informational: if they cannot be recorded, only
/// their number is known.
pub(crate) fn note_problems(repository: &Repository, name: &str, problems: &Problems) {
    let write = || {
        let dir = repository.control.make_dir(PROBLEMS)?;
        dir.unlink(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = dir.file(name, flags, Mode::RUSR | Mode::WUSR)?;
        file.write_all(format(problems).as_bytes()).map_err(|cause| Error::io("write", dir.join(name), cause))
    };
    let _ = write();
}

/// A line for a note: its code, a space, its message.
pub(super) fn line(note: &Note) -> String {
    format!("{} {}\n", note.code, note.message)
}

/// The note in a line. Whoever may write to the repository may have written anything there.
pub(super) fn note(line: &str) -> Option<Note> {
    let (code, message) = line.split_once(' ')?;
    let is_code = code.len() <= 40 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    is_code.then(|| Note::new(code, message))
}

fn format(problems: &Problems) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{SENTENCE}{}", problems.count);
    problems.first.iter().take(MOST).for_each(|note| text += &line(note));
    text
}

fn parse(text: &str) -> Option<Problems> {
    let mut lines = text.split('\n');
    let count = lines.next()?.strip_prefix(SENTENCE)?.parse().ok()?;
    Some(Problems { count, first: lines.filter_map(note).take(MOST).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn problems_are_read_as_they_were_written() {
        let first = vec![Note::new("not-found", "cannot open '/a\n'"), Note::new("failed", "<script>")];
        let problems = Problems { count: 7, first };
        assert_eq!(parse(&format(&problems)), Some(problems));
        for text in ["", "problems 2 all 7\n", "problems 1 all x\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
        let odd = parse("problems 1 all 9\nNOT A CODE\nfine \x1b[31m\nno-message").unwrap();
        assert_eq!(odd.first, [Note::new("fine", "\\x1b[31m")]);
    }

    #[test]
    fn many_notes_are_cut() {
        let problems = Problems { count: 999, first: vec![Note::new("failed", &"a".repeat(9999)); 999] };
        let read = parse(&format(&problems)).unwrap();
        assert_eq!((read.count, read.first.len()), (999, MOST));
        assert!(format(&problems).len() < LARGEST as usize);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            parse(&format!("{SENTENCE}{text}"));
        }
    }
}
