//! A fuzz target for the small files of a repository, which are mostly lines of text.

use super::{added, marks, name, origin, problems, reopened, seen, verification, verified};
use crate::monitor::{MOST, Note};
use crate::util::text;

/// Any such file. It is written as it was read, and read again.
pub(crate) fn notes(bytes: &[u8]) {
    if let Some(found) = marks::parse(bytes) {
        assert_eq!(marks::parse(marks::format(&found).as_bytes()), Some(found));
    }
    check_seen(bytes);
    bytes.split(|byte| *byte == 0).for_each(check_repaired);
    let lossy = String::from_utf8_lossy(bytes);
    if let Some(found) = problems::parse(&lossy) {
        check_notes(&found.first);
        // Files of the first version have no number of skipped entries.
        let skipped_count = found.skipped_count.or(Some(found.skipped.len() as u64));
        let written = problems::format(&found);
        assert_eq!(problems::parse(&written), Some(problems::Problems { skipped_count, ..found }));
    }
    if let Some(found) = verification::parse(&lossy) {
        check_notes(&found.first_damage);
        check_notes(&found.first_problems);
        assert!((0.0..=100.0).contains(&found.percent));
        assert_eq!(verification::parse(&verification::format(&found)), Some(found));
    }
    let Ok(plain) = std::str::from_utf8(bytes) else { return };
    if let Some(found) = verified::parse(plain) {
        assert_eq!(verified::format(found).to_ascii_lowercase(), plain.to_ascii_lowercase());
    }
    if let Some(found) = added::parse(plain) {
        assert_eq!(added::parse(&added::format(&found)), Some(found));
    }
    if let Some(found) = origin::parse(plain) {
        assert_eq!(origin::format(&found).trim_end(), plain.trim_end());
    }
    if name::is_snapshot_name(plain) {
        assert!(!plain.contains(['/', '\0', '\n']) && !matches!(plain, "" | "." | ".." | "latest" | "live"));
        assert!(plain.len() <= 255 && !plain.starts_with(['.', '-']));
    }
}

/// Notes come from a file that others may have written, and are shown on terminals.
fn check_notes(notes: &[Note]) {
    assert!(notes.len() <= MOST);
    for note in notes {
        let is_code = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        assert!(note.code.len() <= 40 && note.code.bytes().all(is_code));
        assert!(!note.message.chars().any(text::is_unprintable) && note.message.len() <= 1003);
    }
}

fn check_seen(bytes: &[u8]) {
    assert!(seen::parse(bytes).is_none_or(|found| seen::format(&found).is_some()));
    let sealed = [&b"pleach seen 3\n"[..], blake3::hash(bytes).as_bytes(), bytes].concat();
    if let Some(found) = seen::parse(&sealed) {
        let written = seen::format(&found).expect("a short record");
        assert_eq!(seen::parse(&written), Some(found));
    }
}

fn check_repaired(record: &[u8]) {
    if let Some((time, path)) = reopened::parse(record) {
        assert!(time.nanos < 1_000_000_000 && !path.ends_with(b"/"));
        let written = [format!("{} {} ", time.seconds, time.nanos).as_bytes(), path].concat();
        assert_eq!(reopened::parse(&written), Some((time, path)));
    }
}
