//! Values of options, read from their words.

use crate::util::time_zone;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// A whole number in this range.
pub(super) fn whole<N: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && range.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| match (*range.start(), *range.end()) {
            (0, u64::MAX) => "a whole number, 0 or more".to_string(),
            (least, most) => format!("a whole number from {least} to {most}"),
        })
    }
}

/// Any whole number that is not negative.
pub(super) fn count<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    whole(0..=u64::MAX)(text)
}

/// The path of a repository. An empty one may be from the environment.
pub(super) fn repository() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|path| match path.is_empty() {
        true => Err("name the repository; PLEACH_REPO may be empty"),
        false => Ok(PathBuf::from(path)),
    })
}

/// A size in bytes.
pub(super) fn size_or_none(text: &str) -> Result<u64, String> {
    crate::util::text::parse_size(text)
        .ok_or_else(|| "give a number, or one with a unit, as 4096, 64K, 4GB or 1.5T (powers of 1024)".to_string())
}

/// A size that is more than nothing, in bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let bytes = size_or_none(text)?;
    if bytes == 0 { Err("it must be more than 0".to_string()) } else { Ok(bytes) }
}

/// A share, from 0 to 100.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(|| "a number from 0 to 100".to_string())
}

/// A share above 0, up to 100.
pub(super) fn part(text: &str) -> Result<f64, String> {
    let part = percent(text).ok().filter(|percent| *percent > 0.0);
    part.ok_or_else(|| "a number above 0 and up to 100, as 5% or 0.5".to_string())
}

/// A share below 100.
pub(super) fn less_than_all(text: &str) -> Result<f64, String> {
    let percent = percent(text)?;
    if percent < 100.0 { Ok(percent) } else { Err("it must be less than 100%".to_string()) }
}

/// The shortest range that dedupe shares.
pub(super) fn min_run(text: &str) -> Result<u64, String> {
    size(text).and_then(crate::dedupe::ranges::check_min_run)
}

/// A length of time.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    crate::util::text::parse_duration(text)
        .ok_or_else(|| "give numbers with y, w, d, h, m or s, as 10y, 14d, 1h30m or 90s".to_string())
}

/// A moment in seconds since 1970: with a zone, or in local time.
pub(super) fn moment(text: &str) -> Result<i64, String> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Ok(moment.as_second());
    }
    let wrong = || "not a time such as 2026-11-20, '2026-11-20 02:00' or 2026-11-20T02:00:00Z".to_string();
    let local: jiff::civil::DateTime = text.parse().map_err(|_| wrong())?;
    let unknown = || "the local time zone is unknown (see TZ): end the time with Z, which means UTC".to_string();
    let zoned = time_zone::local().ok_or_else(unknown)?.to_zoned(local).map_err(|_| wrong())?;
    Ok(zoned.timestamp().as_second())
}

/// A tag.
pub(super) fn tag(text: &str) -> Result<String, String> {
    crate::snapshot::repository::check_tag(text).map_err(|error| error.to_string())?;
    Ok(text.to_string())
}

/// The name of a directory's entry, as bytes.
pub(super) fn name(name: OsString) -> Result<Vec<u8>, String> {
    let name = name.into_vec();
    let is_name = !matches!(name.as_slice(), b"" | b"." | b"..") && !name.contains(&b'/');
    if is_name { Ok(name) } else { Err("a name, and no path".to_string()) }
}

/// A BLAKE3 in hexadecimal digits, as b3sum writes it.
pub(super) fn blake3(text: &str) -> Result<[u8; 32], String> {
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| "64 hexadecimal digits".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_is_explained_in_our_words() {
        for text in ["abc", "-1", "+1", "", "1.5", "99999999999999999999"] {
            assert_eq!(count::<u64>(text), Err("a whole number, 0 or more".into()), "{text}");
            assert_eq!(whole::<usize>(1..=4096)(text), Err("a whole number from 1 to 4096".into()), "{text}");
        }
        assert_eq!((count("7"), whole::<usize>(0..=20)("21").is_err()), (Ok(7_u64), true));
    }
}
