//! The progress line: phase, percentage, amounts, time left, speed.

use crate::monitor::Amount;
use crate::program::output::summary;
use crate::util::text;
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr as _;

/// A part of the work.
#[derive(Clone)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) expected: Option<Amount>,
    /// Whether `expected` is an estimate.
    pub(super) is_estimate: bool,
    pub(super) since: Instant,
    /// Counted from 1; 0 means that none has begun.
    pub(super) number: usize,
}

/// The speed: an average over the last seconds.
pub(super) struct Meter {
    phase: usize,
    last: (Instant, Amount),
    bytes_per_second: f64,
}

impl Meter {
    /// The speed's time constant in seconds: after it, a new speed has mostly replaced the old one.
    const MEMORY: f64 = 3.0;

    pub(super) fn new() -> Self {
        Meter { phase: 0, last: (Instant::now(), Amount::default()), bytes_per_second: 0.0 }
    }

    pub(super) fn measure(&mut self, phase: &Phase, done: Amount) {
        if self.phase != phase.number {
            *self = Meter { phase: phase.number, last: (phase.since, Amount::default()), bytes_per_second: 0.0 };
        }
        let (then, before) = self.last;
        let passed = then.elapsed().as_secs_f64();
        if passed < 0.001 {
            return;
        }
        let now = done.bytes.saturating_sub(before.bytes) as f64 / passed;
        let is_first = before == Amount::default();
        let weight = if is_first { 1.0 } else { 1.0 - (-passed / Self::MEMORY).exp() };
        self.bytes_per_second += (now - self.bytes_per_second) * weight;
        self.last = (Instant::now(), done);
    }
}

/// The line: phase, percentage, entries, bytes, time left, speed; as many of them as fit into the width.
pub(super) fn status(phase: &Phase, done: Amount, meter: &Meter, width: usize) -> String {
    // An estimate that turned out too low is ignored.
    let is_more = |expected: Amount| done.files > expected.files || done.bytes > expected.bytes;
    let expected = phase.expected.filter(|expected| !(phase.is_estimate && is_more(*expected)));
    let about = if phase.is_estimate { "about " } else { "" };
    let fraction = expected.and_then(|expected| fraction(done, expected));
    let left = fraction.and_then(|fraction| time_left(phase.since.elapsed(), fraction));
    let mut parts = vec![phase.name.clone()];
    parts.extend(fraction.map(|fraction| format!("{about}{:.0}%", (fraction * 100.0).floor())));
    if done.files > 0 || done.bytes == 0 && expected.is_none_or(|expected| expected.files > 0) {
        parts.push(summary::entries(done.files));
    }
    let of = expected.map_or(0, |expected| expected.bytes);
    match done.bytes {
        0 => {}
        bytes if of > bytes => parts.push(format!("{} of {about}{}", text::size(bytes), text::size(of))),
        bytes => parts.push(text::size(bytes)),
    }
    parts.extend(left.map(|left| format!("{} left", text::duration(left.as_secs_f64().ceil()))));
    if meter.bytes_per_second >= 1.0 {
        parts.push(format!("{}/s", text::size(meter.bytes_per_second as u64)));
    }
    let mut line = String::new();
    for part in parts {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.width() + gap.len() + part.width() >= width {
            break;
        }
        line = line + gap + &part;
    }
    line
}

/// The finished part of the work, from 0 to 1: the mean over files and bytes, since small files cost by number and
/// large ones by size.
fn fraction(done: Amount, expected: Amount) -> Option<f64> {
    let of = |done: u64, expected: u64| (expected > 0).then(|| (done as f64 / expected as f64).min(1.0));
    match (of(done.files, expected.files), of(done.bytes, expected.bytes)) {
        (Some(files), Some(bytes)) => Some((files + bytes) / 2.0),
        (one, other) => one.or(other),
    }
}

/// Estimates the time left, once enough work is done.
fn time_left(passed: Duration, fraction: f64) -> Option<Duration> {
    let known = passed >= Duration::from_secs(2) && fraction >= 0.01;
    known.then(|| Duration::try_from_secs_f64(passed.as_secs_f64() * (1.0 - fraction) / fraction).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(files: u64, bytes: u64) -> Amount {
        Amount { files, bytes }
    }

    #[test]
    fn the_status_fits_the_width() {
        let since = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let phase = Phase {
            name: "cloning".into(),
            expected: Some(amount(2000, 2 << 30)),
            is_estimate: false,
            since,
            number: 1,
        };
        let meter = Meter { phase: 1, last: (since, amount(0, 0)), bytes_per_second: 1048576.0 };
        let line = |width| status(&phase, amount(1000, 1 << 30), &meter, width);
        assert_eq!(line(80), "cloning  50%  1,000 entries  1.0 GiB of 2.0 GiB  11.0 s left  1.0 MiB/s");
        assert_eq!(line(50), "cloning  50%  1,000 entries  1.0 GiB of 2.0 GiB");
        assert_eq!(line(10), "cloning");
        assert_eq!(line(3), "");
    }

    #[test]
    fn an_estimate_is_called_one_and_goes_when_it_was_too_low() {
        let since = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let phase = Phase {
            name: "cloning".into(),
            expected: Some(amount(2000, 2 << 30)),
            is_estimate: true,
            since,
            number: 1,
        };
        let meter = Meter::new();
        let line = |done| status(&phase, done, &meter, 80);
        assert_eq!(
            line(amount(1000, 1 << 30)),
            "cloning  about 50%  1,000 entries  1.0 GiB of about 2.0 GiB  11.0 s left"
        );
        assert_eq!(line(amount(2001, 1 << 30)), "cloning  2,001 entries  1.0 GiB");
    }

    #[test]
    fn a_stream_has_no_entries() {
        let phase = Phase {
            name: "putting".into(),
            expected: Some(amount(0, 100)),
            is_estimate: false,
            since: Instant::now(),
            number: 1,
        };
        assert_eq!(status(&phase, amount(0, 50), &Meter::new(), 80), "putting  50%  50 B of 100 B");
    }

    #[test]
    fn the_time_left_is_told_only_once_it_is_known() {
        assert_eq!(time_left(Duration::from_secs(1), 0.5), None);
        assert_eq!(time_left(Duration::from_secs(10), 0.0), None);
        assert_eq!(time_left(Duration::from_secs(10), 0.5), Some(Duration::from_secs(10)));
    }

    #[test]
    fn what_is_expected_may_be_only_files_or_only_bytes() {
        assert_eq!(fraction(amount(5, 0), amount(10, 0)), Some(0.5));
        assert_eq!(fraction(amount(5, 100), amount(10, 100)), Some(0.75));
        assert_eq!(fraction(amount(5, 100), amount(0, 0)), None);
    }
}
