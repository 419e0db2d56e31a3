//! Text for people and scripts: paths that cannot harm a terminal, sizes, counts, times. No I/O.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path for a message: unchanged if every byte is printable, otherwise in single quotes with escapes as in C.
///
/// Control characters, invisible or direction-changing code points, and bytes that are not UTF-8 are always escaped.
pub(crate) fn path(path: &Path) -> String {
    let escaped = escape(path.as_os_str());
    let plain = escaped.as_bytes() == path.as_os_str().as_bytes();
    if plain && !escaped.is_empty() && !escaped.contains([' ', '\'', '"']) {
        escaped
    } else {
        format!("'{}'", escaped.replace('\'', "\\'"))
    }
}

/// Escapes everything that could affect a terminal: `\n`, `\x1b`, `\u{202e}`. Bytes that are not UTF-8 become escapes
/// like `\xff`. Backslashes are doubled.
pub(crate) fn escape(text: &OsStr) -> String {
    let mut out = String::with_capacity(text.len());
    for chunk in text.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || is_unprintable(c) {
                out.push_str(&escape_char(c));
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Whether a character could affect a terminal or deceive a reader.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// One character as an escape.
pub(crate) fn escape_char(c: char) -> String {
    let mut out = String::new();
    push_escaped(&mut out, c);
    out
}

/// Adds one character as an escape.
pub(crate) fn push_escaped(out: &mut String, c: char) {
    let _ = match c {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\\' => out.write_str("\\\\"),
        c if c.is_ascii() => write!(out, "\\x{:02x}", c as u32),
        c => write!(out, "\\u{{{:x}}}", c as u32),
    };
}

/// Escapes everything that could affect a terminal in the output of a program. A longer run of one such character is
/// its escape and its length.
pub(crate) fn escape_output(text: &str) -> String {
    const RUN: usize = 16;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_unprintable) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(c) = rest.chars().next() else { break };
        let after = rest.trim_start_matches(c);
        let length = (rest.len() - after.len()) / c.len_utf8();
        push_escaped(&mut out, c);
        match length {
            0..RUN => (1..length).for_each(|_| push_escaped(&mut out, c)),
            _ => {
                let _ = write!(out, " ({} times)", count(length as u64));
            }
        }
        rest = after;
    }
    out + rest
}

/// Code points that show nothing or only a blank, or that reorder the text around them: in Unicode's terms format
/// characters (Cf), `Default_Ignorable_Code_Point`, separators (Z) except the space, and the empty Braille pattern.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{1680}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The cause of an error without Rust's "(os error N)".
pub(crate) fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// Bytes in powers of 1024: `0 B`, `4.0 KiB`, `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    // 1023.95 would round to "1024.0".
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A count with separated thousands: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count and its noun: `1 file`, `2,000 files`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(number))
}

/// Parses a size: bytes, or a number with a unit, `K`, `M`, `G`, `T`, `P` or `E`, in either case. `4G`, `4GB`, `4GiB`
/// and `4 G` are equal: units are powers of 1024. A fraction (`1.5G`) needs a unit. `None`: not a size, or too large
/// for 64 bits.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start_matches(' ').to_ascii_lowercase();
    let power = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" if unit != "ib" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        "e" => 6,
        _ => return None,
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if power > 0 && (1..=9).contains(&fraction.len()) => (whole, fraction),
        Some(_) => return None,
        None => (number, "0"),
    };
    let scale = 1_u64.checked_shl(10 * power)?;
    let rest = u128::from(digits(fraction)?) * u128::from(scale) / 10_u128.pow(fraction.len() as u32);
    digits(whole)?.checked_mul(scale)?.checked_add(u64::try_from(rest).ok()?)
}

/// Parses a duration: numbers with `y` (365 days), `w`, `d`, `h`, `m` (minutes) or `s`, the largest unit first, as
/// `10y`, `90s` or `1h30m`. `None`: not a duration, or too long for 64 bits of seconds.
pub(crate) fn parse_duration(text: &str) -> Option<std::time::Duration> {
    const UNITS: [(char, u64); 6] =
        [('y', 365 * 86_400), ('w', 7 * 86_400), ('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];
    let (mut rest, mut units, mut sum) = (text, &UNITS[..], 0_u64);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let unit = rest[end..].chars().next()?;
        let at = units.iter().position(|(letter, _)| *letter == unit)?;
        sum = sum.checked_add(digits(&rest[..end])?.checked_mul(units[at].1)?)?;
        units = &units[at + 1..];
        rest = rest[end + unit.len_utf8()..].trim_start_matches(' ');
    }
    (!text.is_empty()).then(|| std::time::Duration::from_secs(sum))
}

/// Parses a number that consists only of ASCII digits: `u64::from_str` would also accept a plus sign.
fn digits(text: &str) -> Option<u64> {
    let are_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| are_digits)
}

/// A time in UTC in the format of RFC 3339: `2026-11-20T02:00:00.5Z`. Times beyond its four-digit years become
/// `@seconds`.
pub(crate) fn rfc3339(seconds: i64, nanos: u32) -> String {
    let moment = i32::try_from(nanos).ok().and_then(|nanos| jiff::Timestamp::new(seconds, nanos).ok());
    match moment {
        Some(moment) if !moment.to_string().starts_with('-') => moment.to_string(),
        _ => format!("@{seconds}"),
    }
}

/// A duration with a suitable precision: `0.25 s`, `12.3 s`, `4 min 5 s`, `2 h 30 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        _ if seconds < 1.0 => format!("{:.2} s", seconds.max(0.0)),
        _ if seconds < 59.95 => format!("{seconds:.1} s"),
        0..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_invisible_character_is_shown_as_it_is() {
        let invisible = "\u{a0}\u{34f}\u{600}\u{115f}\u{1160}\u{17b4}\u{180b}\u{2003}\u{2800}\
            \u{3000}\u{3164}\u{fe0f}\u{ffa0}\u{1d173}\u{e0100}";
        assert!(invisible.chars().all(is_unprintable));
        assert_eq!(escape(OsStr::new("a\u{3000}b")), "a\\u{3000}b");
        assert!(!" äЖ中한🎄é٠".chars().any(is_unprintable));
    }

    #[test]
    fn a_long_run_of_one_control_character_is_written_once() {
        assert_eq!(escape_output("plain ä"), "plain ä");
        assert_eq!(escape_output("a\0\0\x1b[1mb\\"), "a\\x00\\x00\\x1b[1mb\\");
        assert_eq!(escape_output(&format!("a{}b", "\0".repeat(8192))), "a\\x00 (8,192 times)b");
        assert_eq!(escape_output(&"\u{202e}".repeat(16)), "\\u{202e} (16 times)");
        assert_eq!(escape_output(&"\0".repeat(15)).len(), 60);
    }

    #[test]
    fn a_plain_path_is_shown_as_it_is() {
        assert_eq!(path(Path::new("/srv/data/ä.txt")), "/srv/data/ä.txt");
    }

    #[test]
    fn control_bytes_and_odd_bytes_are_escaped() {
        let hostile = OsStr::from_bytes(b"a\x1b[31m\xff\n\xe2\x80\xae");
        assert_eq!(path(Path::new(hostile)), "'a\\x1b[31m\\xff\\n\\u{202e}'");
    }

    #[test]
    fn sizes_stay_within_their_unit() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(4096), "4.0 KiB");
        assert_eq!(size(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(size(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1234567), "1,234,567");
        assert_eq!(counted(1, "file"), "1 file");
    }

    #[test]
    fn quotes_within_quotes_are_escaped() {
        assert_eq!(path(Path::new("it's")), "'it\\'s'");
        assert_eq!(path(Path::new("a b")), "'a b'");
        assert_eq!(path(Path::new("")), "''");
    }

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        assert_eq!(["0", "007", "5B", "5 b"].map(parse_size), [0, 7, 5, 5].map(Some));
        for four in ["4G", "4g", "4GB", "4gb", "4GiB", "4gib", "4 G", "4 GiB", "4.0G", "4096M", "4194304k"] {
            assert_eq!(parse_size(four), Some(4 << 30), "{four}");
        }
        assert_eq!(
            ["2t", "1P", "15E", "1.5K", "0.5 MB"].map(parse_size),
            [2 << 40, 1 << 50, 15 << 60, 1536, 1 << 19].map(Some)
        );
        assert_eq!(parse_size("18446744073709551615"), Some(u64::MAX));
        let wrong = [
            "",
            "K",
            "B",
            " ",
            "+1K",
            "-1",
            "1.5",
            "1.G",
            ".5G",
            "1.2.3G",
            "1KiBs",
            "1 K B",
            "1iB",
            "1Ki",
            "K1",
            "1KK",
            "ß",
            "1ß",
            "18446744073709551616",
            "16E",
            "15.99999999999E",
            "99999999T",
            " 1",
            "1e9",
        ];
        for wrong in wrong {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_read_with_their_units() {
        let seconds = |text| parse_duration(text).map(|duration| duration.as_secs());
        let day = 86_400;
        assert_eq!(["90s", "30m", "6h", "14d"].map(seconds), [90, 1800, 21_600, 14 * day].map(Some));
        assert_eq!(
            ["10y", "2w", "1h30m", "1y2w3d4h5m6s"].map(seconds),
            [3650 * day, 14 * day, 5400, 382 * day + 14_706].map(Some)
        );
        assert_eq!(["1h 30m", "0s", "1d30s"].map(seconds), [5400, 0, day + 30].map(Some));
        let wrong = [
            "",
            " ",
            "s",
            "90",
            "1h30",
            "+1s",
            "-1s",
            "1.5h",
            "1 h",
            "30m1h",
            "1h1h",
            "1x",
            "99999999999999999999d",
            "ß",
            "1ß",
            "18446744073709551615m",
            "584942417356y",
            "18446744073709551615s1s",
            " 1h",
        ];
        for wrong in wrong {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        assert_eq!(rfc3339(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1795140000, 500_000_000), "2026-11-20T02:00:00.5Z");
        assert_eq!(rfc3339(-1, 0), "1969-12-31T23:59:59Z");
        assert_eq!(rfc3339(i64::MAX, 0), format!("@{}", i64::MAX));
        assert_eq!(rfc3339(-99_999_999_999, 0), "@-99999999999");
    }

    #[test]
    fn durations_are_as_precise_as_they_are_long() {
        assert_eq!(duration(0.254), "0.25 s");
        assert_eq!(duration(12.34), "12.3 s");
        assert_eq!(duration(59.99), "1 min 0 s");
        assert_eq!(duration(9000.0), "2 h 30 min");
    }
}
