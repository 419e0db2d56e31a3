//! A fuzz target for patterns.

use super::Patterns;
use super::file::lines;
use super::patterns::Matcher;
use crate::util::fuzz::Source;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The most bytes of patterns. Compiling long ones takes time, whatever is in them.
const MOST: usize = 2000;

/// A path and the path of a source as strings, then a file of patterns.
pub(crate) fn excludes(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let (path, top) = (source.bytes(), source.bytes());
    let content = source.rest();
    let Ok(found) = lines(&content[..content.len().min(MOST)], Path::new("list")) else { return };
    for line in &found {
        assert!(!line.text.is_empty() && !line.text.starts_with('#') && !line.text.contains('\n'));
        let again = lines(line.text.as_bytes(), Path::new("list")).expect("a line");
        // A byte order mark may begin the first line only.
        assert!(again.first().is_some_and(|again| again.text == line.text) || line.text.starts_with('\u{feff}'));
    }
    let (Ok(patterns), count) = (Patterns::new(found.clone()), found.len()) else { return };
    assert_eq!(patterns.is_empty(), count == 0);
    let matcher = Matcher::new(&patterns, [Path::new(OsStr::from_bytes(top))]);
    assert_eq!(matcher.unmatched().len(), count);
    let (directory, name) = crate::util::path::split(path);
    let (as_file, as_directory) =
        (matcher.within(directory).excludes(name, false), matcher.within(directory).excludes(name, true));
    let has_matched = matcher.unmatched().len() < count;
    assert!(has_matched || !as_file && !as_directory, "an entry is excluded by no pattern");
    // The same again: nothing that was found before changes the result.
    assert_eq!(matcher.within(directory).excludes(name, false), as_file);
    let is_simple = |line: &str| !line.starts_with('!') && !line.ends_with('/');
    if found.iter().all(|line| is_simple(&line.text)) {
        assert_eq!(as_file, as_directory, "no pattern distinguishes files from directories");
        assert_eq!(as_file, has_matched, "a pattern that matches excludes");
    }
}
