//! What a command has to say, and where it goes: results to stdout, everything else to stderr. Only here, and in `main`,
//! is anything written to the screen.

pub(crate) mod copy;
pub(crate) mod dedupe;
pub(crate) mod du;
pub(crate) mod fiemap;
mod json;
mod lines;
pub(crate) mod list;
pub(crate) mod map;
mod margin;
pub(crate) mod owners;
pub(crate) mod probe;
pub(crate) mod progress;
pub(crate) mod put;
pub(crate) mod restore;
pub(crate) mod sharing;
pub(crate) mod snapshot;
mod summary;
pub(crate) mod svg;
mod table;
pub(crate) mod terminal;

use pleach::error::{Error, Result};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use terminal::{Environment, Style};

/// Of a choice that a terminal decides unless the user does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// How the user wants to be told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) progress: When,
    pub(crate) colours: When,
}

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
    /// Stdout takes nothing more.
    is_broken: AtomicBool,
}

struct Stdout {
    writer: Box<dyn Write + Send>,
    /// Why it takes nothing more; a reader that went away is no failure.
    failure: Option<io::Error>,
}

impl Output {
    /// The streams of this process; `cancel` is set when the user asks to stop.
    pub(crate) fn new(settings: Settings, cancel: Arc<AtomicBool>) -> Self {
        let (stdout_is_terminal, stderr_is_terminal) = terminal::are_terminals();
        let environment = Environment::of_process();
        // A descriptor of our own, since the standard library's stdout flushes at every line.
        let writer: Box<dyn Write + Send> = match io::stdout().as_fd().try_clone_to_owned() {
            Ok(fd) => Box::new(BufWriter::with_capacity(64 << 10, File::from(fd))),
            Err(_) => Box::new(io::stdout()),
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
            is_broken: AtomicBool::new(false),
        }
    }

    /// Whether results are to be JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.settings.json
    }

    /// Whether only errors, and what was asked for, are to be said.
    pub(crate) fn is_quiet(&self) -> bool {
        self.settings.quiet
    }

    /// Whether more is to be told than usual.
    pub(crate) fn is_verbose(&self) -> bool {
        self.settings.verbose
    }

    /// Whether stdout is a terminal, which may act upon what it is sent.
    pub(crate) fn is_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// Whether text for stdout is to be coloured.
    pub(crate) fn colours(&self) -> bool {
        self.stdout_colours
    }

    /// A line of results. Failures are kept for [`Output::finish`].
    pub(crate) fn line(&self, line: &str) {
        self.write(|writer| writeln!(writer, "{line}"));
    }

    /// A JSON object on a line of its own.
    pub(crate) fn json(&self, object: &impl Serialize) {
        self.write(|writer| json::write_line(writer, object));
    }

    /// Text as it is, which may be many lines.
    pub(crate) fn text(&self, text: &[u8]) {
        self.write(|writer| writer.write_all(text));
    }

    /// Whether the user asked to stop.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Whether going on is of no use: the user asked to stop, or nobody takes the lines any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_interrupted() || self.is_broken.load(Ordering::Relaxed)
    }

    /// Something failed.
    pub(crate) fn error(&self, message: &dyn std::fmt::Display) {
        self.message(Style::Red, &message.to_string());
    }

    /// The user should know, but it is no failure.
    pub(crate) fn notice(&self, sentence: &str) {
        if !self.settings.quiet {
            self.message(Style::Plain, sentence);
        }
    }

    /// The user should know, and do something about it.
    pub(crate) fn warning(&self, sentence: &str) {
        if !self.settings.quiet {
            self.message(Style::Yellow, &format!("warning: {sentence}"));
        }
    }

    /// A curious user wants to know.
    pub(crate) fn detail(&self, sentence: &str) {
        if self.settings.verbose {
            self.message(Style::Dim, sentence);
        }
    }

    /// Writes out what is left of stdout, and tells whether all of it got there.
    pub(crate) fn finish(&self) -> Result<()> {
        self.write(|writer| writer.flush());
        match self.stdout().failure.take() {
            Some(failure) => Err(Error::failed("write the output").because(failure)),
            None => Ok(()),
        }
    }

    fn message(&self, style: Style, message: &str) {
        let message = terminal::harmless(message);
        let line = format!("{} {message}\n", style.paint("pleach:", self.stderr_colours));
        // One call, so that the lines of several processes do not mix. Where stderr is closed there is nobody to tell.
        let _ = io::stderr().write_all(line.as_bytes());
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
