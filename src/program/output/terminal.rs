//! Output to terminals: colours if they are wanted, and no control characters from names.

use super::json;
use super::settings::When;
use super::wrap::wrap;
use crate::error::Error;
use crate::program::exit_status::ExitStatus;
use crate::sys::standard_streams::stdout_was_closed;
use crate::util::text;
use rustix::io::Errno;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};

/// The style of a piece of text if colours are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Style {
    /// The text in this style, or unchanged if colours are off.
    pub(crate) fn paint<'a>(self, text: &'a str, colours: bool) -> Cow<'a, str> {
        match self.code().filter(|_| colours) {
            Some(code) => Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m")),
            None => Cow::Borrowed(text),
        }
    }

    /// The part of the style's escape sequence between `\x1b[` and `m`; `None` if the style needs no sequence.
    pub(crate) fn code(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Bold => Some("1"),
            Style::Dim => Some("2"),
            Style::Red => Some("1;31"),
            Style::Green => Some("32"),
            Style::Yellow => Some("1;33"),
        }
    }
}

/// The environment variables that affect colours.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    no_color: Option<OsString>,
    clicolor_force: Option<OsString>,
    clicolor: Option<OsString>,
    term: Option<OsString>,
}

impl Environment {
    /// The environment of this process.
    pub(crate) fn of_process() -> Self {
        let get = std::env::var_os;
        Environment {
            no_color: get("NO_COLOR"),
            clicolor_force: get("CLICOLOR_FORCE"),
            clicolor: get("CLICOLOR"),
            term: get("TERM"),
        }
    }

    /// Whether the terminal cannot move its cursor.
    pub(crate) fn is_dumb(&self) -> bool {
        self.term.as_ref().is_none_or(|term| term.is_empty() || term == "dumb")
    }

    /// Whether to colour. In this order: the user's option, `NO_COLOR`, `CLICOLOR_FORCE`, whether the stream is a
    /// terminal.
    pub(crate) fn colours(&self, when: When, is_terminal: bool) -> bool {
        let is_on = |value: &Option<OsString>| value.as_ref().is_some_and(|value| !value.is_empty() && value != "0");
        match when {
            When::Always => true,
            When::Never => false,
            When::Auto if self.no_color.as_ref().is_some_and(|value| !value.is_empty()) => false,
            When::Auto if is_on(&self.clicolor_force) => true,
            When::Auto => is_terminal && !self.is_dumb() && self.clicolor.as_ref().is_none_or(|value| value != "0"),
        }
    }
}

/// The columns of the terminal on stderr.
pub(crate) fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// The columns to fill on stdout: those of [`stdout_columns`], or 100.
pub(crate) fn stdout_width() -> usize {
    stdout_columns().unwrap_or(100)
}

/// The columns on stdout, if they are known: from `COLUMNS`, or from the terminal.
pub(crate) fn stdout_columns() -> Option<usize> {
    let wished = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let has = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let columns = wished.filter(|columns| *columns > 0).or_else(|| has().filter(|columns| *columns > 0));
    columns.map(|columns| columns.min(1000))
}

/// Whether the locale supports characters beyond ASCII.
pub(crate) fn is_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Escapes every character of a message that a terminal could act upon; line feeds too, since a message is one line.
///
/// Paths are already escaped when they are put into a message; this catches anything that slipped through.
pub(crate) fn harmless(message: &str) -> Cow<'_, str> {
    if message.chars().any(text::is_unprintable) {
        let mut out = String::with_capacity(message.len() + 16);
        message.chars().for_each(|c| match text::is_unprintable(c) {
            true => text::push_escaped(&mut out, c),
            false => out.push(c),
        });
        Cow::Owned(out)
    } else {
        Cow::Borrowed(message)
    }
}

/// Text of files for a terminal: control characters other than line feeds and tabs, and bytes that are not UTF-8, are
/// escaped. A character that is cut at either end counts as such bytes.
pub(crate) fn without_controls(content: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(content.len());
    for chunk in content.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' | '\t' => out.push(c),
                c if text::is_unprintable(c) => out.push_str(&text::escape_char(c)),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out.into_bytes()
}

/// Shows help or the version on stdout, or the error in the command line on stderr. Returns the status to exit with.
pub(crate) fn show_usage(usage: &Usage) -> ExitStatus {
    let environment = Environment::of_process();
    if usage.is_json && !usage.is_answer {
        let message = usage.plain.trim_end().strip_prefix("error: ").unwrap_or(usage.plain.trim_end());
        let lines: Vec<_> = message.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let _ = json::write_line(&mut std::io::stdout().lock(), &json::MessageLine::usage(lines.join(" ")));
    }
    if usage.is_answer {
        let text =
            if environment.colours(When::Auto, std::io::stdout().is_terminal()) { &usage.ansi } else { &usage.plain };
        return answer(text);
    }
    if usage.is_help {
        let text =
            if environment.colours(When::Auto, std::io::stderr().is_terminal()) { &usage.ansi } else { &usage.plain };
        let _ = write!(std::io::stderr(), "{text}");
    } else {
        // The message quotes the arguments, and a glob may have put a hostile name among them.
        let columns = if std::io::stderr().is_terminal() { width() } else { usize::MAX };
        let lines: Vec<_> = usage.plain.lines().map(|line| wrap(&harmless(line), 0, 2, columns)).collect();
        let _ = writeln!(std::io::stderr(), "{}", lines.join("\n").trim_end());
    }
    ExitStatus::Usage
}

/// Writes text that the user asked for. A reader that goes away has seen enough.
fn answer(text: &str) -> ExitStatus {
    match stdout().map_err(Into::into).and_then(|mut stdout| stdout.write_all(text.as_bytes())) {
        Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => {
            let error = Error::failed("write the output").because(cause);
            let _ = writeln!(std::io::stderr(), "pleach: {}", harmless(&error.to_string()));
            ExitStatus::of(&error)
        }
        _ => ExitStatus::Done,
    }
}

/// The message that the parser of the command line returns instead of a command.
#[derive(Debug)]
pub(crate) struct Usage {
    /// Whether the user asked for it: `--help`, `--version`.
    pub(crate) is_answer: bool,
    /// Whether it is the program's own text, which quotes no argument.
    pub(crate) is_help: bool,
    /// Whether the command line asks for JSON.
    pub(crate) is_json: bool,
    /// The text without colours.
    pub(crate) plain: String,
    /// The text with colours.
    pub(crate) ansi: String,
}

/// Stdout as a file of our own. The standard library's stdout flushes after every line, and ignores that a descriptor
/// cannot be written.
///
/// # Errors
/// `BADF` if stdout was closed when the process started; errors of fcntl(2).
pub(crate) fn stdout() -> rustix::io::Result<File> {
    if stdout_was_closed() {
        return Err(Errno::BADF);
    }
    // Not the number of another standard stream.
    rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3).map(File::from)
}

/// Whether stdout and stderr are terminals.
pub(crate) fn are_terminals() -> (bool, bool) {
    (std::io::stdout().is_terminal(), std::io::stderr().is_terminal())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let get = |name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
        Environment {
            no_color: get("NO_COLOR"),
            clicolor_force: get("CLICOLOR_FORCE"),
            clicolor: get("CLICOLOR"),
            term: get("TERM"),
        }
    }

    #[test]
    fn colours_follow_the_user_then_the_environment_then_the_terminal() {
        let xterm = environment(&[("TERM", "xterm")]);
        assert!(xterm.colours(When::Auto, true));
        assert!(!xterm.colours(When::Auto, false));
        assert!(!environment(&[("TERM", "dumb")]).colours(When::Auto, true));
        assert!(!environment(&[("TERM", "xterm"), ("NO_COLOR", "1")]).colours(When::Auto, true));
        assert!(environment(&[("NO_COLOR", "1")]).colours(When::Always, false));
        assert!(environment(&[("CLICOLOR_FORCE", "1")]).colours(When::Auto, false));
    }

    #[test]
    fn a_message_carries_no_control_characters_to_the_terminal() {
        assert_eq!(harmless("plain ä"), "plain ä");
        assert_eq!(harmless("a\x1b[31m\nb"), "a\\x1b[31m\\nb");
    }
}
