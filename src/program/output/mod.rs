//! The output of a command: results go to stdout, everything else to stderr. Only this module and `main` write to the
//! screen.

pub(crate) mod adopt;
mod beside;
mod bound;
pub(crate) mod copy;
pub(crate) mod dedupe;
pub(crate) mod diff;
pub(crate) mod du;
pub(crate) mod fiemap;
pub(crate) mod find;
mod json;
mod lines;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod map;
mod margin;
mod messages;
#[cfg(feature = "offsite")]
pub(crate) mod offsite;
mod own_file;
pub(crate) mod owners;
pub(crate) mod probe;
mod problems;
pub(crate) mod progress;
pub(crate) mod prune;
pub(crate) mod put;
mod reasons;
pub(crate) mod replicate;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod run;
mod settings;
pub(crate) mod sharing;
pub(crate) mod snapshot;
mod summary;
pub(crate) mod svg;
mod table;
pub(crate) mod tag;
pub(crate) mod terminal;
pub(crate) mod verify;
mod wrap;

pub(crate) use settings::{Settings, When};

use crate::error::{Error, Result};
use crate::monitor::Event;
use crate::util::mutex::lock;
use crate::util::tail::Tail;
use json::MessageLine;
use problems::Problems;
use rustix::io::Errno;
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use terminal::{Environment, Style};

/// The beginning of each message.
const PREFIX: &str = "pleach:";

/// The two streams of a command. Shared by threads.
pub(crate) struct Output {
    settings: Settings,
    stdout: Mutex<Stdout>,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    stdout_colours: bool,
    stderr_colours: bool,
    stderr_is_dumb: bool,
    cancel: Arc<AtomicBool>,
    problems: Problems,
    /// Stdout accepts no more output.
    is_broken: AtomicBool,
    /// A result has been written.
    has_results: AtomicBool,
    /// A result could not be written, so further results are useless. An unread message stops no work.
    is_unread: AtomicBool,
    /// Work stops if nobody reads its results. By default it continues.
    stops_unread: AtomicBool,
    /// The last messages, if they are kept.
    log: Mutex<Option<Tail>>,
}

struct Stdout {
    writer: Box<dyn Write + Send>,
    /// Why the stream accepts no more output; a reader that went away is not a failure.
    failure: Option<io::Error>,
}

/// A stream that accepts no output.
struct Unusable(Errno);

impl Write for Unusable {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    /// The streams of this process; `cancel` is set when the user asks to stop.
    pub(crate) fn new(settings: Settings, cancel: Arc<AtomicBool>) -> Self {
        let (stdout_is_terminal, stderr_is_terminal) = terminal::are_terminals();
        let environment = Environment::of_process();
        let writer: Box<dyn Write + Send> = match terminal::stdout() {
            Ok(file) => Box::new(BufWriter::with_capacity(64 << 10, file)),
            Err(errno) => Box::new(Unusable(errno)),
        };
        Output {
            settings,
            stdout: Mutex::new(Stdout { writer, failure: None }),
            stdout_is_terminal,
            stderr_is_terminal,
            stdout_colours: environment.colours(settings.colours, stdout_is_terminal) && !settings.json,
            stderr_colours: environment.colours(settings.colours, stderr_is_terminal),
            stderr_is_dumb: environment.is_dumb(),
            cancel,
            problems: Problems::default(),
            is_broken: AtomicBool::new(false),
            has_results: AtomicBool::new(false),
            is_unread: AtomicBool::new(false),
            stops_unread: AtomicBool::new(false),
            log: Mutex::new(None),
        }
    }

    /// Whether results are printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.settings.json
    }

    /// Whether informational output is suppressed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.settings.quiet
    }

    /// Whether details are shown.
    pub(crate) fn is_verbose(&self) -> bool {
        self.settings.verbose
    }

    /// Whether stdout is a terminal, which interprets control characters.
    pub(crate) fn is_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// Whether text on stdout is coloured.
    pub(crate) fn colours(&self) -> bool {
        self.stdout_colours
    }

    /// Writes a line of results. [`Output::finish`] reports failures.
    pub(crate) fn line(&self, line: &str) {
        self.write_result(|writer| writeln!(writer, "{line}"));
    }

    /// Separates a result from those before it by an empty line, if there are any.
    pub(crate) fn gap(&self) {
        if self.has_results.load(Ordering::Relaxed) {
            self.line("");
        }
    }

    /// Writes a JSON object on its own line.
    pub(crate) fn json(&self, object: &impl Serialize) {
        self.write_result(|writer| json::write_line(writer, object));
    }

    /// Writes text unchanged; it may have many lines.
    pub(crate) fn text(&self, text: &[u8]) {
        self.write_result(|writer| writer.write_all(text));
    }

    /// Whether the user asked to stop.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Whether to stop: the user asked for it, or nobody reads the results any more and the work changes nothing.
    pub(crate) fn is_cancelled(&self) -> bool {
        let is_unread = self.is_unread.load(Ordering::Relaxed) && self.stops_unread.load(Ordering::Relaxed);
        self.is_interrupted() || is_unread
    }

    /// For work that changes nothing: it stops if nobody reads its results any more. A step of a run continues.
    pub(crate) fn stop_if_unread(&self) {
        self.stops_unread.store(!self.is_unattended(), Ordering::Relaxed);
    }

    /// Whether it is the work of a profile.
    fn is_unattended(&self) -> bool {
        lock(&self.log).is_some()
    }

    /// For work that nobody watches: it continues if nobody reads its results, and keeps its last messages.
    pub(crate) fn work_unattended(&self) {
        self.stops_unread.store(false, Ordering::Relaxed);
        lock(&self.log).get_or_insert_default();
    }

    /// Adds a line to the last messages, if they are kept.
    pub(crate) fn note(&self, line: &str) {
        if let Some(log) = lock(&self.log).as_mut() {
            log.push(line.to_string());
        }
    }

    /// The last messages, if they are kept.
    pub(crate) fn log(&self) -> String {
        lock(&self.log).as_ref().map(Tail::text).unwrap_or_default()
    }

    /// Reports that the command failed.
    pub(crate) fn error(&self, error: &Error) {
        if self.settings.json {
            self.json_message(&MessageLine::of_error(error));
        }
        self.message(Style::Red, &messages::error(error));
    }

    /// Reports that the command missed a requirement: a sentence, and the code by which programs recognize it.
    pub(crate) fn shortfall(&self, code: &'static str, sentence: &str) {
        if self.settings.json {
            self.json_message(&MessageLine::shortfall(code, sentence));
        }
        self.message(Style::Red, sentence);
    }

    /// Reports that one entry failed. JSON lists each problem; people see the first few of a kind, and all with `-v`.
    pub(crate) fn problem(&self, error: &Error) {
        if self.settings.json {
            self.json_message(&MessageLine::of_error(error));
        }
        if self.settings.verbose || self.problems.admit(error) {
            self.message(Style::Red, &messages::error(error));
        }
    }

    /// Reports how many problems of each kind were not shown.
    pub(crate) fn remaining_problems(&self) {
        self.problems.rest().iter().for_each(|line| self.message(Style::Red, line));
    }

    /// Shows a result or progress on stderr. JSON has it in another form.
    pub(crate) fn info(&self, sentence: &str) {
        if !self.settings.quiet {
            self.message(Style::Plain, sentence);
        }
    }

    /// Reports an event of an engine that is not a failure.
    pub(crate) fn event(&self, event: Event<'_>) {
        // A profile's patterns may match something another day.
        let is_usual = matches!(event, Event::UnmatchedPatterns { .. }) && self.is_unattended();
        if is_usual && !self.settings.verbose {
            if self.settings.json {
                self.json_message(&MessageLine::warning(event.code(), event.path(), &messages::event(&event)));
            }
        } else if !event.is_detail() {
            self.notice(event.code(), event.path(), &messages::event(&event));
        } else if self.settings.verbose {
            self.detail(&messages::event(&event));
        }
    }

    /// Reports something that the user should know, but that is not a failure; programs recognize it by `code`.
    pub(crate) fn notice(&self, code: &'static str, path: Option<&Path>, sentence: &str) {
        if self.settings.json {
            self.json_message(&MessageLine::warning(code, path, sentence));
        }
        self.info(sentence);
    }

    /// Reports something that the user should know and act upon; programs recognize it by `code`.
    pub(crate) fn warning(&self, code: &'static str, sentence: &str) {
        if self.settings.json {
            self.json_message(&MessageLine::warning(code, None, sentence));
        }
        if !self.settings.quiet {
            self.message(Style::Yellow, &format!("warning: {sentence}"));
        }
    }

    /// Reports a detail, with `-v` only.
    pub(crate) fn detail(&self, sentence: &str) {
        if self.settings.verbose {
            self.message(Style::Dim, sentence);
        }
    }

    /// Writes out the rest of stdout. Returns an error if some of the output could not be written.
    pub(crate) fn finish(&self) -> Result<()> {
        self.write(|writer| writer.flush());
        match self.stdout().failure.take() {
            Some(failure) => Err(Error::failed("write the output").because(failure)),
            None => Ok(()),
        }
    }

    fn message(&self, style: Style, message: &str) {
        let message = terminal::harmless(message);
        self.note(&message);
        let message = if self.stderr_is_terminal {
            wrap::wrap(&message, PREFIX.len() + 1, PREFIX.len() + 1, terminal::width()).into()
        } else {
            message
        };
        let line = format!("{} {message}\n", style.paint(PREFIX, self.stderr_colours));
        // A single call, so that the lines of several processes do not mix. If stderr is closed, there is nobody to
        // inform.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// Shows a command that the user may run after a message, on a line of its own, which is not wrapped.
    pub(crate) fn command(&self, command: &str) {
        let line = format!("    {}", terminal::harmless(command));
        self.note(&line);
        let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
    }

    fn json_message(&self, message: &MessageLine<'_>) {
        self.write(|writer| json::write_line(writer, message));
    }

    fn write_result(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        self.write(write);
        self.has_results.store(true, Ordering::Relaxed);
        if self.is_broken.load(Ordering::Relaxed) {
            self.is_unread.store(true, Ordering::Relaxed);
        }
    }

    fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let mut stdout = self.stdout();
        if self.is_broken.load(Ordering::Relaxed) {
            return;
        }
        let mut result = write(&mut *stdout.writer);
        if result.is_ok() && self.stdout_is_terminal {
            result = stdout.writer.flush();
        }
        if let Err(error) = result {
            self.is_broken.store(true, Ordering::Relaxed);
            stdout.failure = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        }
    }

    fn stdout(&self) -> MutexGuard<'_, Stdout> {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
