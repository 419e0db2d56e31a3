//! A fuzz target for the values of options: sizes, durations, shares, times, names.

use super::values;
use crate::util::text;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// Any word.
pub(crate) fn values(bytes: &[u8]) {
    if let Ok(name) = values::name(OsString::from_vec(bytes.to_vec())) {
        assert!(!name.is_empty() && !name.contains(&b'/') && name != b".." && name != b".");
    }
    let shown = text::escape(OsString::from_vec(bytes.to_vec()).as_os_str());
    assert!(!shown.chars().any(text::is_unprintable), "{shown:?} would change a terminal");
    let Ok(word) = std::str::from_utf8(bytes) else { return };
    assert!(!text::escape_output(word).chars().any(text::is_unprintable));
    if let Ok(size) = values::size_or_none(word) {
        assert_eq!(values::size_or_none(&size.to_string()), Ok(size));
        assert_eq!(values::size(word).is_ok(), size > 0);
        assert_eq!(values::min_run(word).is_ok(), size >= 512);
        // A number is one of its own unit, and not one of a larger one.
        if word.bytes().all(|byte| byte.is_ascii_digit()) && size > 0 {
            assert!(values::size(&format!("{word}K")).is_ok_and(|more| more == size << 10) || size >> 54 > 0);
        }
    }
    if let Ok(duration) = values::duration(word) {
        assert_eq!(values::duration(&format!("{}s", duration.as_secs())), Ok(duration));
    }
    if let Ok(percent) = values::percent(word) {
        assert!((0.0..=100.0).contains(&percent));
        assert_eq!(values::part(word).is_ok(), percent > 0.0);
        assert_eq!(values::less_than_all(word).is_ok(), percent < 100.0);
        assert_eq!(values::percent(&percent.to_string()), Ok(percent));
    }
    if let Ok(count) = values::count::<u64>(word) {
        assert_eq!(values::whole::<u32>(1..=100)(word).is_ok(), (1..=100).contains(&count));
    }
    if let Ok(tag) = values::tag(word) {
        assert!(!tag.is_empty() && !tag.contains([',', '\n']));
    }
    if let Ok(hash) = values::blake3(word) {
        assert_eq!(data_encoding::HEXLOWER.encode(&hash), word.to_ascii_lowercase());
    }
    if let Ok(seconds) = values::moment(word) {
        // As far as such a time has four digits for its year.
        let written = text::rfc3339(seconds, 0);
        assert!(written.starts_with('@') || values::moment(&written) == Ok(seconds), "{written}");
    }
}
