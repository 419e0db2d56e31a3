//! Progress: the monitor of a command, and the only place that knows indicatif.
//!
//! Engines call the monitor from many threads, once per small file. Counting is two atomic additions. A separate thread
//! draws the sums: on a terminal as a line that is redrawn; elsewhere, if requested, as a line now and then.

mod status_line;

use self::status_line::{Meter, Phase, status};
use super::margin::{self, Margin};
use super::{Output, When, json::ChangeLine};
use crate::error::Error;
use crate::monitor::{Amount, Change, Damage, Event, Monitor, Repaired};
use crate::tree::estimate::{self, Scope};
use crate::util::text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const REDRAW: Duration = Duration::from_millis(100);
const PLAIN_LINE: Duration = Duration::from_secs(3);
/// Shorter work shows no progress: a line that only flashes up helps nobody.
const PATIENCE: Duration = Duration::from_millis(300);

/// Runs `work` with a monitor that shows its progress.
pub(crate) fn watch<T>(output: &Output, work: impl FnOnce(&dyn Monitor) -> T) -> T {
    watch_estimated(output, None, work)
}

/// Like [`watch`]. If the first part of the work does not know its own size, the size of `scope` is estimated
/// meanwhile.
pub(crate) fn watch_estimated<T>(output: &Output, scope: Option<Scope<'_>>, work: impl FnOnce(&dyn Monitor) -> T) -> T {
    watched(output, scope, |progress| work(progress))
}

/// Like [`watch`], for work that prints results while it runs, and does nothing else: it stops if nobody reads them. It
/// calls the second argument before each: if results are on the same screen, they replace the progress.
pub(crate) fn watch_listing<T>(output: &Output, work: impl FnOnce(&dyn Monitor, &dyn Fn()) -> T) -> T {
    output.stop_if_unread();
    watched(output, None, |progress| {
        work(progress, &|| {
            if output.stdout_is_terminal {
                progress.stop_drawing();
            }
        })
    })
}

fn watched<'o, T>(output: &'o Output, scope: Option<Scope<'_>>, work: impl FnOnce(&Progress<'o>) -> T) -> T {
    let progress = Progress::new(output, Display::suiting(output));
    if let Display::None = progress.display {
        let result = work(&progress);
        output.remaining_problems();
        return result;
    }
    let result = std::thread::scope(|threads| {
        // Without a thread there is no progress to see, but the work is still done.
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let _ = thread("progress").spawn_scoped(threads, || progress.draw_until_stopped());
        if let Some(scope) = scope {
            let progress = &progress;
            let _ = thread("estimate").spawn_scoped(threads, move || progress.estimate(&scope));
        }
        let _stop = Stop(&progress);
        work(&progress)
    });
    output.remaining_problems();
    result
}

/// Runs `work` with a monitor that shows no progress: the results show it themselves as they are printed.
pub(crate) fn unseen<T>(output: &Output, work: impl FnOnce(&dyn Monitor) -> T) -> T {
    let result = work(&Progress::new(output, Display::None));
    output.remaining_problems();
    result
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
    /// Whether a plan has nothing but new entries.
    is_all_new: AtomicBool,
    stopped: AtomicBool,
    wake: Condvar,
}

impl<'a> Progress<'a> {
    fn new(output: &'a Output, display: Display) -> Self {
        let phase = Phase { name: String::new(), expected: None, is_estimate: false, since: Instant::now(), number: 0 };
        Progress {
            output,
            display,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            phase: Mutex::new(phase),
            is_all_new: AtomicBool::new(false),
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
                // A finished bar ignores further messages.
                Display::Bar(bar) => bar.set_message(status(&phase, self.done(), &meter, margin::width())),
                Display::Lines => self.output.info(&status(&phase, self.done(), &meter, usize::MAX)),
                Display::None => {}
            }
        }
    }

    /// Estimates the first part of the work, if it does not know its own size.
    fn estimate(&self, scope: &Scope<'_>) {
        let mut phase = self.phase();
        while phase.number == 0 && !self.stopped.load(Ordering::Relaxed) {
            phase = self.wake.wait(phase).unwrap_or_else(PoisonError::into_inner);
        }
        let is_known = phase.expected.is_some();
        drop(phase);
        let is_over = || self.stopped.load(Ordering::Relaxed) || self.output.is_cancelled() || self.phase().number != 1;
        if is_known || is_over() {
            return;
        }
        if let Some(amount) = estimate::estimate(scope, &is_over) {
            let mut phase = self.phase();
            if phase.number == 1 {
                (phase.expected, phase.is_estimate) = (Some(amount), true);
            }
        }
    }

    fn stop_drawing(&self) {
        if !self.stopped.swap(true, Ordering::Relaxed) {
            if let Display::Bar(bar) = &self.display {
                bar.finish_and_clear();
            }
            // Taking the lock ensures that the drawing thread either waits already, or has yet to check the flag.
            drop(self.phase());
            self.wake.notify_all();
        }
    }

    /// Prints something while the bar is hidden.
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
        let number = phase.number + 1;
        *phase = Phase { name: name.to_string(), expected, is_estimate: false, since: Instant::now(), number };
        self.wake.notify_all();
    }

    fn advance(&self, done: Amount) {
        self.files.fetch_add(done.files, Ordering::Relaxed);
        self.bytes.fetch_add(done.bytes, Ordering::Relaxed);
    }

    fn problem(&self, error: &Error) {
        self.beside_the_bar(|| self.output.problem(error));
    }

    fn event(&self, event: Event<'_>) {
        if matches!(event, Event::NothingEarlier) {
            self.is_all_new.store(true, Ordering::Relaxed);
        }
        self.beside_the_bar(|| self.output.event(event));
    }

    fn damage(&self, damage: &Damage<'_>) {
        self.beside_the_bar(|| super::verify::damage(self.output, damage));
    }

    fn repaired(&self, repaired: &Repaired<'_>) {
        self.beside_the_bar(|| super::verify::repaired(self.output, repaired));
    }

    fn planned(&self, change: Change, path: &Path) {
        // A list of all files helps few people. Programs get it.
        if self.is_all_new.load(Ordering::Relaxed) && !self.output.is_verbose() && !self.output.is_json() {
            return;
        }
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
    // An invalid template would be a bug; the default style is a good fallback.
    bar.with_style(ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
