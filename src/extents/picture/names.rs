//! Names beside the rows: the part that all paths have in common is shown once, and long names are shortened in the
//! middle.

use crate::util::text;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The names of files, safe to print to a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The part that they have in common, with an ellipsis in place of the differing part; empty if there is none.
    pub common: String,
    /// The remaining part of each name.
    pub names: Vec<String>,
}

impl Names {
    /// The names of these paths.
    pub(crate) fn of(paths: &[&Path]) -> Names {
        let parts: Vec<Vec<&[u8]>> =
            paths.iter().map(|path| path.as_os_str().as_bytes().split(|b| *b == b'/').collect()).collect();
        let same = |at: &dyn Fn(&Vec<&[u8]>) -> Vec<u8>| parts.windows(2).all(|pair| at(&pair[0]) == at(&pair[1]));
        // A single path keeps one component, and so does the shortest path.
        let most = parts.iter().map(Vec::len).min().unwrap_or(1) - 1;
        let head = (0..most).take_while(|n| same(&|parts| parts[*n].to_vec())).count();
        let from_end = |parts: &Vec<&[u8]>, n: usize| parts[parts.len() - 1 - n].to_vec();
        let tail = if parts.len() < 2 {
            0
        } else {
            (0..most - head).take_while(|n| same(&|parts| from_end(parts, *n))).count()
        };
        let joined = |parts: &[&[u8]]| text::escape(OsStr::from_bytes(&parts.join(&b"/"[..])));
        let Some(first) = parts.first() else { return Names { common: String::new(), names: Vec::new() } };
        let common = match (head, tail) {
            (0, 0) => String::new(),
            (_, 0) => format!("{}/", joined(&first[..head])),
            (0, _) => format!("…/{}", joined(&first[first.len() - tail..])),
            _ => format!("{}/…/{}", joined(&first[..head]), joined(&first[first.len() - tail..])),
        };
        Names { common, names: parts.iter().map(|parts| joined(&parts[head..parts.len() - tail])).collect() }
    }
}

/// The text in at most `columns` columns, with an ellipsis in the middle if it is longer.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_string();
    }
    let room = columns.saturating_sub(1);
    // The end of a name distinguishes files more often than its beginning.
    let head = fitting(text.chars(), room / 2);
    let tail: Vec<char> = fitting(text.chars().rev(), room - room / 2);
    head.into_iter().chain((columns > 0).then_some('…')).chain(tail.into_iter().rev()).collect()
}

fn fitting(text: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut used = 0;
    text.take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= columns
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> (String, Vec<String>) {
        let paths: Vec<_> = paths.iter().map(Path::new).collect();
        let Names { common, names } = Names::of(&paths);
        (common, names)
    }

    #[test]
    fn what_all_have_in_common_is_said_once() {
        assert_eq!(names(&["/b/1/x/d", "/b/2/x/d"]), ("/b/…/x/d".into(), vec!["1".into(), "2".into()]));
        assert_eq!(names(&["/b/one", "/b/two/one"]), ("/b/".into(), vec!["one".into(), "two/one".into()]));
        assert_eq!(names(&["one", "two"]), (String::new(), vec!["one".into(), "two".into()]));
        assert_eq!(names(&["a/x", "b/x"]), ("…/x".into(), vec!["a".into(), "b".into()]));
        assert_eq!(names(&["/d/a"]), ("/d/".into(), vec!["a".into()]));
        assert_eq!(names(&["/a", "/a"]), ("/".into(), vec!["a".into(), "a".into()]));
        assert_eq!(names(&[]), (String::new(), vec![]));
        assert_eq!(names(&["/b/x/d", "/b/d"]), ("/b/".into(), vec!["x/d".into(), "d".into()]));
    }

    #[test]
    fn names_do_no_harm() {
        assert_eq!(names(&["/d\x1b/a\n", "/d\x1b/b"]), ("/d\\x1b/".into(), vec!["a\\n".into(), "b".into()]));
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shorten("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten("abcdefghij", 5), "ab…ij");
        assert_eq!(shorten("日本語日本語", 6), "日…語");
        assert_eq!(shorten("abc", 1), "…");
        assert_eq!(shorten("abc", 0), "");
    }
}
