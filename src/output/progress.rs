//! Progress: the monitor of a command, and the only place that knows indicatif.
//!
//! Engines call it from many threads, once a small file: counting is two atomic additions, and one thread of its own
//! draws what they add up to. On a terminal that is a line which is redrawn; elsewhere, if asked for, a line now and then.

use super::margin::{self, Margin};
use super::summary;
use super::{Output, When, json::ChangeLine};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pleach::error::Error;
use pleach::monitor::{Amount, Change, Monitor};
use pleach::text;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr as _;

const REDRAW: Duration = Duration::from_millis(100);
const PLAIN_LINE: Duration = Duration::from_secs(3);
/// Work shorter than this shows nothing: a line that flashes up helps nobody.
const PATIENCE: Duration = Duration::from_millis(300);

/// Runs `work` with a monitor that tells the user of it.
pub(crate) fn watch<T>(output: &Output, work: impl FnOnce(&dyn Monitor) -> T) -> T {
    let progress = Progress::new(output, Display::suiting(output));
    if let Display::None = progress.display {
        return work(&progress);
    }
    std::thread::scope(|scope| {
        // Without a thread there is no progress to see, but the work is done.
        let _ =
            std::thread::Builder::new().name("progress".into()).spawn_scoped(scope, || progress.draw_until_stopped());
        let _stop = Stop(&progress);
        work(&progress)
    })
}

/// Runs `work` with a monitor that shows no progress: its results do that themselves, as they come.
pub(crate) fn unseen<T>(output: &Output, work: impl FnOnce(&dyn Monitor) -> T) -> T {
    work(&Progress::new(output, Display::None))
}

/// Ends the drawing when the work returns.
struct Stop<'a>(&'a Progress<'a>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop_drawing();
    }
}

enum Display {
    None,
    Bar(ProgressBar),
    Lines,
}

impl Display {
    fn suiting(output: &Output) -> Self {
        let settings = &output.settings;
        let can_redraw = output.stderr_is_terminal && !output.stderr_is_dumb;
        match settings.progress {
            _ if settings.json || settings.quiet => Display::None,
            When::Never => Display::None,
            When::Auto if !can_redraw => Display::None,
            When::Always if !can_redraw => Display::Lines,
            _ => Display::Bar(bar()),
        }
    }
}

struct Progress<'a> {
    output: &'a Output,
    display: Display,
    files: AtomicU64,
    bytes: AtomicU64,
    phase: Mutex<Phase>,
    stopped: AtomicBool,
    wake: Condvar,
}

#[derive(Clone)]
struct Phase {
    name: String,
    expected: Option<Amount>,
    since: Instant,
    number: usize,
}

impl<'a> Progress<'a> {
    fn new(output: &'a Output, display: Display) -> Self {
        let phase = Phase { name: String::new(), expected: None, since: Instant::now(), number: 0 };
        Progress {
            output,
            display,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            phase: Mutex::new(phase),
            stopped: AtomicBool::new(false),
            wake: Condvar::new(),
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> Amount {
        Amount { files: self.files.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    fn draw_until_stopped(&self) {
        let began = Instant::now();
        let interval = if let Display::Lines = self.display { PLAIN_LINE } else { REDRAW };
        let mut meter = Meter::new();
        loop {
            let guard = self.phase();
            if self.stopped.load(Ordering::Relaxed) {
                break;
            }
            let (guard, _) = self.wake.wait_timeout(guard, interval).unwrap_or_else(PoisonError::into_inner);
            let phase = guard.clone();
            drop(guard);
            if self.stopped.load(Ordering::Relaxed) {
                break;
            }
            meter.measure(&phase, self.done());
            if began.elapsed() < PATIENCE || phase.number == 0 {
                continue;
            }
            match &self.display {
                // Once finished, a bar draws no more, whatever its message.
                Display::Bar(bar) => bar.set_message(status(&phase, self.done(), &meter, margin::width())),
                Display::Lines => self.output.notice(&status(&phase, self.done(), &meter, usize::MAX)),
                Display::None => {}
            }
        }
    }

    fn stop_drawing(&self) {
        if !self.stopped.swap(true, Ordering::Relaxed) {
            if let Display::Bar(bar) = &self.display {
                bar.finish_and_clear();
            }
            // The lock is taken so that the drawing thread is either waiting, or has yet to look at the flag.
            drop(self.phase());
            self.wake.notify_all();
        }
    }

    /// Says something with the bar out of the way.
    fn beside_the_bar(&self, say: impl FnOnce()) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(say),
            _ => say(),
        }
    }
}

impl Monitor for Progress<'_> {
    fn phase(&self, name: &str, expected: Option<Amount>) {
        let mut phase = self.phase();
        self.files.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        *phase = Phase { name: name.to_string(), expected, since: Instant::now(), number: phase.number + 1 };
    }

    fn advance(&self, done: Amount) {
        self.files.fetch_add(done.files, Ordering::Relaxed);
        self.bytes.fetch_add(done.bytes, Ordering::Relaxed);
    }

    fn problem(&self, error: &Error) {
        self.beside_the_bar(|| self.output.error(error));
    }

    fn notice(&self, sentence: &str) {
        self.beside_the_bar(|| self.output.notice(sentence));
    }

    fn detail(&self, sentence: &str) {
        if self.output.settings.verbose {
            self.beside_the_bar(|| self.output.detail(sentence));
        }
    }

    fn planned(&self, change: Change, path: &Path) {
        let say = || {
            if self.output.is_json() {
                self.output.json(&ChangeLine::new(change, path));
            } else {
                self.output.line(&format!("{} {}", change.letter(), text::path(path)));
            }
        };
        if self.output.stdout_is_terminal {
            // On one screen the plan is the progress; redrawing a bar after each of a million lines would take longer.
            self.stop_drawing();
        }
        say();
    }

    fn sharing(&self, source: &Path, path: &Path, bytes: u64) {
        if self.output.stdout_is_terminal {
            self.stop_drawing();
        }
        super::dedupe::plan(self.output, source, path, bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.output.is_cancelled()
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::term_like(Box::new(Margin)));
    // A template that does not parse would be a bug; the default style is then as good as any.
    bar.with_style(ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

/// How fast it goes: an average over the last seconds.
struct Meter {
    phase: usize,
    last: (Instant, Amount),
    bytes_per_second: f64,
}

impl Meter {
    /// After this many seconds a new speed has mostly replaced the old one.
    const MEMORY: f64 = 3.0;

    fn new() -> Self {
        Meter { phase: 0, last: (Instant::now(), Amount::default()), bytes_per_second: 0.0 }
    }

    fn measure(&mut self, phase: &Phase, done: Amount) {
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

/// The line: phase, share done, entries, bytes, rate, time left; from the end what the width has no room for is left out.
fn status(phase: &Phase, done: Amount, meter: &Meter, width: usize) -> String {
    let fraction = phase.expected.and_then(|expected| fraction(done, expected));
    let left = fraction.and_then(|fraction| time_left(phase.since.elapsed(), fraction));
    let mut parts = vec![phase.name.clone()];
    parts.extend(fraction.map(|fraction| format!("{:.0}%", (fraction * 100.0).floor())));
    parts.push(summary::entries(done.files));
    let of = phase.expected.map_or(0, |expected| expected.bytes);
    match done.bytes {
        0 => {}
        bytes if of > bytes => parts.push(format!("{} of {}", text::size(bytes), text::size(of))),
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

/// How much of the work is done, 0 to 1: the mean over files and bytes, since small files cost by number and large ones by
/// size.
fn fraction(done: Amount, expected: Amount) -> Option<f64> {
    let of = |done: u64, expected: u64| (expected > 0).then(|| (done as f64 / expected as f64).min(1.0));
    match (of(done.files, expected.files), of(done.bytes, expected.bytes)) {
        (Some(files), Some(bytes)) => Some((files + bytes) / 2.0),
        (one, other) => one.or(other),
    }
}

/// An estimate, once there is enough to go by.
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
        let phase = Phase { name: "cloning".into(), expected: Some(amount(2000, 2 << 30)), since, number: 1 };
        let meter = Meter { phase: 1, last: (since, amount(0, 0)), bytes_per_second: 1048576.0 };
        let line = |width| status(&phase, amount(1000, 1 << 30), &meter, width);
        assert_eq!(line(80), "cloning  50%  1,000 entries  1.0 GiB of 2.0 GiB  11.0 s left  1.0 MiB/s");
        assert_eq!(line(50), "cloning  50%  1,000 entries  1.0 GiB of 2.0 GiB");
        assert_eq!(line(10), "cloning");
        assert_eq!(line(3), "");
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
