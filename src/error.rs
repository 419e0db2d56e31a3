//! Errors: the action that failed, the path, the cause, and a remedy if there is one.
//!
//! One error type serves the whole library. It carries no backtrace and prints nothing. Its [`ErrorKind`] determines
//! the exit status of the command.

mod advice;

use crate::util::text;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use advice::Advice;

/// The result of a function that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an error, as far as a caller needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An operation failed.
    Failed,
    /// The request contradicts itself.
    Usage,
    /// The stored data differs from the data that was written.
    Damage,
    /// The repository is locked by another run.
    Locked,
    /// The user or the system asked the run to stop.
    Interrupted,
}

/// An operation that failed: the action, the path, the cause, and a remedy.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    action: String,
    path: Option<PathBuf>,
    cause: Option<io::Error>,
    hint: Option<String>,
    advice: Option<Advice>,
    code: Option<&'static str>,
    keeps_entry: bool,
}

impl Error {
    /// An error of this kind. `action` completes the sentence "cannot …".
    pub(crate) fn new(kind: ErrorKind, action: impl Into<String>) -> Self {
        let (path, cause, hint, advice, code) = (None, None, None, None, None);
        Error { kind, action: action.into(), path, cause, hint, advice, code, keeps_entry: false }
    }

    /// A system call failed: `cannot <action> <path>: <cause>`.
    pub(crate) fn io(action: impl Into<String>, path: impl AsRef<Path>, cause: impl Into<io::Error>) -> Self {
        Self::new(ErrorKind::Failed, action).at(path).because(cause)
    }

    /// An invalid request: exit status 2.
    pub(crate) fn usage(action: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, action)
    }

    /// A refusal, or a failure without a failed system call.
    pub(crate) fn failed(action: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, action)
    }

    /// The run was asked to stop. Only the command knows what this means for the files, so the command adds a hint.
    pub(crate) fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted")
    }

    /// A command cannot be started.
    pub(crate) fn not_started(program: &OsStr, cause: io::Error) -> Self {
        let path = Path::new(program);
        let error = Self::failed("run").at(path);
        let has_slash = program.as_encoded_bytes().contains(&b'/');
        match cause.kind() {
            io::ErrorKind::NotFound if has_slash && path.exists() => error
                .because(cause)
                .hint("its interpreter (the line '#!') does not exist")
                .with_code("command-not-found"),
            io::ErrorKind::NotFound => {
                error.because(io::Error::other("command not found")).with_code("command-not-found")
            }
            _ => error.because(cause),
        }
    }

    /// Sets the path.
    #[must_use]
    pub(crate) fn at(mut self, path: impl AsRef<Path>) -> Self {
        self.path = Some(path.as_ref().to_path_buf());
        self
    }

    /// Sets the cause.
    #[must_use]
    pub(crate) fn because(mut self, cause: impl Into<io::Error>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Sets the hint, which says what the user can do: a sentence without its full stop.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds another sentence to the hint.
    #[must_use]
    pub(crate) fn hint_also(self, more: &str) -> Self {
        let hint = match &self.hint {
            Some(hint) => format!("{hint}; {more}"),
            None => more.to_string(),
        };
        self.hint(hint)
    }

    /// Sets the advice, for a remedy with words that depend on the program.
    #[must_use]
    pub(crate) fn advise(mut self, advice: Advice) -> Self {
        self.advice = Some(advice);
        self
    }

    /// The remedy with words that depend on the program.
    pub fn advice(&self) -> Option<Advice> {
        self.advice
    }

    /// Sets the word by which programs recognize the error. It is part of the output format: do not change it later.
    #[must_use]
    pub(crate) fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Marks the error of a part of an entry: the entry itself, and everything in it, was not skipped.
    #[must_use]
    pub(crate) fn keeping_entry(mut self) -> Self {
        self.keeps_entry = true;
        self
    }

    /// Whether only a part of an entry failed.
    pub(crate) fn keeps_entry(&self) -> bool {
        self.keeps_entry
    }

    /// Whether the path does not exist, or no longer.
    pub(crate) fn is_not_found(&self) -> bool {
        self.raw_os_error() == Some(libc::ENOENT)
    }

    /// The word by which programs recognize the error: its own, or the word for its kind or its error number.
    pub fn code(&self) -> &'static str {
        match (self.code, self.kind) {
            (Some(code), _) => code,
            (None, ErrorKind::Usage) => "usage",
            (None, ErrorKind::Damage) => "damage",
            (None, ErrorKind::Locked) => "locked",
            (None, ErrorKind::Interrupted) => "interrupted",
            (None, ErrorKind::Failed) => self.raw_os_error().map_or("failed", code_of_errno),
        }
    }

    /// The action and the cause, without the path and the hint. Equal for errors of one class.
    pub fn class(&self) -> String {
        match &self.cause {
            Some(cause) => format!("cannot {}: {}", self.action, text::cause(cause)),
            None => format!("cannot {}", self.action),
        }
    }

    /// Sets the hint unless there is one, like [`Error::hint`].
    #[must_use]
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Self {
        if self.hint.is_none() { self.hint(hint) } else { self }
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The path, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The error number of the operating system, if there is one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.cause.as_ref().and_then(io::Error::raw_os_error)
    }
}

fn code_of_errno(errno: i32) -> &'static str {
    match errno {
        libc::ENOENT | libc::ENOTDIR => "not-found",
        libc::EACCES | libc::EPERM => "permission-denied",
        libc::ENOSPC | libc::EDQUOT => "no-space",
        libc::EROFS => "read-only",
        libc::EEXIST | libc::ENOTEMPTY => "exists",
        libc::EIO => "io-error",
        libc::ENAMETOOLONG => "name-too-long",
        libc::ENOMEM => "no-memory",
        libc::EMFILE | libc::ENFILE => "too-many-open-files",
        libc::ELOOP | libc::ESTALE => "changed",
        libc::EOPNOTSUPP | libc::ENOSYS => "unsupported",
        libc::EPIPE => "broken-pipe",
        _ => "os-error",
    }
}

impl Error {
    /// The error in one line, with this advice.
    pub(crate) fn with_advice(&self, advice: Option<&str>) -> String {
        let mut hints = self.hint.as_deref().into_iter().chain(advice).peekable();
        let mut line = self.without_hint();
        if hints.peek().is_some() {
            let hints: Vec<_> = hints.collect();
            line += &format!(" ({})", hints.join("; "));
        }
        line
    }

    fn without_hint(&self) -> String {
        let mut line = match self.kind {
            ErrorKind::Interrupted => self.action.clone(),
            _ => format!("cannot {}", self.action),
        };
        if let Some(path) = &self.path {
            line += &format!(" {}", text::path(path));
        }
        if let Some(cause) = &self.cause {
            line += &format!(": {}", text::cause(cause));
        }
        line
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_advice(None))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

/// A run that ended early.
#[derive(Debug)]
#[non_exhaustive]
pub struct Stopped<S> {
    /// Why it ended.
    pub error: Error,
    /// The counts until then. `None`: the run had not started.
    pub stats: Option<Box<S>>,
}

impl<S> Stopped<S> {
    /// A run that ended with these counts.
    pub(crate) fn after(error: Error, stats: S) -> Self {
        Stopped { error, stats: Some(Box::new(stats)) }
    }
}

impl<S> From<Error> for Stopped<S> {
    fn from(error: Error) -> Self {
        Stopped { error, stats: None }
    }
}

impl<S> From<Stopped<S>> for Error {
    fn from(stopped: Stopped<S>) -> Error {
        stopped.error
    }
}

impl<S> fmt::Display for Stopped<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S: fmt::Debug> std::error::Error for Stopped<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` shows the error itself.
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_action_path_cause_and_hint_in_one_line() {
        let error = Error::io("open", "/a/b\n", io::Error::from_raw_os_error(libc::EACCES)).hint("run as root");
        assert_eq!(error.to_string(), "cannot open '/a/b\\n': Permission denied (run as root)");
        assert_eq!(error.kind(), ErrorKind::Failed);
    }

    #[test]
    fn an_interruption_claims_nothing_by_itself() {
        assert_eq!(Error::interrupted().to_string(), "interrupted");
    }

    #[test]
    fn an_error_has_a_code_and_a_class_without_its_path() {
        let error = |path| Error::io("open", path, io::Error::from_raw_os_error(libc::EACCES)).hint("run as root");
        assert_eq!((error("/a").code(), error("/a").class()), ("permission-denied", error("/b").class()));
        assert_eq!(Error::failed("replace").with_code("empty-input").code(), "empty-input");
        assert_eq!(Error::interrupted().code(), "interrupted");
        assert_eq!(Error::failed("do").hint("a").hint_also("b").to_string(), "cannot do (a; b)");
    }
}
