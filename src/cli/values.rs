//! Values of options, read from their words.

use std::time::Duration;

/// A size that is more than nothing, in bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let bytes =
        pleach::text::parse_size(text).ok_or_else(|| "a number, or one with K, M, G or T behind it".to_string())?;
    if bytes == 0 { Err("more than nothing".to_string()) } else { Ok(bytes) }
}

/// A length of time.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    pleach::text::parse_duration(text).ok_or_else(|| "a number and s, m, h or d, as 90s or 6h".to_string())
}
