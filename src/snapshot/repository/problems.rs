//! The problems of the run that made a snapshot, in `.pleach/problems/NAME`: how many there were, the first ones, and
//! the entries that the run skipped. A snapshot without such a file had no problems, or they were not recorded. Its
//! manifest has their number.

use super::handle::Repository;
use crate::monitor::{MOST, Note};
use rustix::fs::{Mode, OFlags};
use std::fmt::Write as _;
use std::io::Read as _;

/// The directory of these files, in the control directory.
pub(super) const PROBLEMS: &str = "problems";
/// The beginning of such a file.
const SENTENCE: &str = "problems 2 all ";
/// The beginning of a file without skipped entries, as earlier versions wrote it.
const SENTENCE_1: &str = "problems 1 all ";
/// How many bytes the lines of skipped entries take at most.
const SKIPPED: usize = 1 << 20;
/// The largest part of a file that is read.
const LARGEST: u64 = (256 << 10) + SKIPPED as u64;

/// The problems of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problems {
    /// All of them.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Note>,
    /// The paths of the first entries that were skipped, in bytes, without their leading slash.
    pub skipped: Vec<Vec<u8>>,
    /// How many entries were skipped. `None`: it is not known.
    pub skipped_count: Option<u64>,
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
        dir.write_new(name, format(problems))
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

pub(super) fn format(problems: &Problems) -> String {
    let mut text = String::new();
    let Problems { count, first, skipped, skipped_count } = problems;
    let _ = writeln!(text, "{SENTENCE}{count} skipped {}", skipped_count.unwrap_or(skipped.len() as u64));
    first.iter().take(MOST).for_each(|note| text += &line(note));
    let mut room = SKIPPED;
    for path in skipped {
        let line = path_line(path);
        room = room.saturating_sub(line.len());
        if room == 0 {
            break;
        }
        text += &line;
    }
    text
}

pub(super) fn parse(text: &str) -> Option<Problems> {
    let mut lines = text.split('\n');
    let first = lines.next()?;
    let (count, skipped_count) = match first.strip_prefix(SENTENCE) {
        Some(numbers) => {
            let (count, skipped) = numbers.split_once(" skipped ")?;
            (count.parse().ok()?, Some(skipped.parse().ok()?))
        }
        None => (first.strip_prefix(SENTENCE_1)?.parse().ok()?, None),
    };
    let (paths, notes): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with('/'));
    let first = notes.into_iter().filter_map(note).take(MOST).collect();
    Some(Problems { count, first, skipped: paths.into_iter().filter_map(path_in).collect(), skipped_count })
}

/// A line for the path of a skipped entry: every byte but graphic ones of ASCII as `%` and two hexadecimal digits, and
/// so is `%`.
fn path_line(path: &[u8]) -> String {
    let mut line = String::from("/");
    for byte in path {
        match byte {
            b'%' | 0..0x21 | 0x7f.. => {
                let _ = write!(line, "%{byte:02x}");
            }
            byte => line.push(char::from(*byte)),
        }
    }
    line + "\n"
}

/// The path in a line. `None`: it is not one that was written.
fn path_in(line: &str) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(line.len());
    let mut rest = line.bytes().skip(1);
    while let Some(byte) = rest.next() {
        path.push(match byte {
            b'%' => {
                let digit = |byte| char::from(byte).to_digit(16);
                (digit(rest.next()?)? * 16 + digit(rest.next()?)?) as u8
            }
            byte => byte,
        });
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn problems_are_read_as_they_were_written() {
        let first = vec![Note::new("not-found", "cannot open '/a\n'"), Note::new("failed", "<script>")];
        let skipped = vec![b"a/b c%\n".to_vec(), b"\xff\xc3\xa4".to_vec(), b"".to_vec()];
        let problems = Problems { count: 7, first, skipped, skipped_count: Some(5) };
        assert_eq!(parse(&format(&problems)), Some(problems));
        for text in ["", "problems 2 all 7\n", "problems 2 all 7 skipped\n", "problems 1 all x\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
        let odd = parse("problems 1 all 9\nNOT A CODE\nfine \x1b[31m\nno-message").unwrap();
        assert_eq!((odd.skipped_count, &odd.first[..]), (None, &[Note::new("fine", "\\x1b[31m")][..]));
        let odd = parse("problems 2 all 9 skipped 4\n/a%\n/b%4\n/%zz\n/%2Fc").unwrap();
        assert_eq!(odd.skipped, [b"/c"]);
    }

    #[test]
    fn many_notes_are_cut() {
        let first = vec![Note::new("failed", &"a".repeat(9999)); 999];
        let skipped = vec![vec![1; 4000]; 999];
        let problems = Problems { count: 999, first, skipped, skipped_count: Some(999) };
        let read = parse(&format(&problems)).unwrap();
        assert_eq!((read.count, read.first.len(), read.skipped_count), (999, MOST, Some(999)));
        assert!((80..100).contains(&read.skipped.len()), "{}", read.skipped.len());
        assert!(format(&problems).len() < LARGEST as usize);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            parse(&format!("{SENTENCE}{text}"));
        }
    }
}
