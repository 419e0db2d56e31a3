//! Runs of pleach and of other commands, and what they printed.

use serde_json::Value;
use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

/// A finished run of the command.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit status; 128 plus the number of the signal if one ended the run.
    pub(crate) status: i32,
    /// The command's stdout.
    pub(crate) stdout: String,
    /// The command's stderr.
    pub(crate) stderr: String,
    line: String,
}

/// The command pleach with these arguments.
pub(crate) fn command(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pleach"));
    command.args(args).env_remove("PLEACH_REPO").stdin(Stdio::null());
    command.env_remove("PLEACH_SSH").env_remove("PLEACH_REMOTE");
    command
}

/// Runs pleach with these arguments to its end.
pub(crate) fn pleach(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
    finish(&mut command(args))
}

/// The command pleach, run as root but subject to permissions: as for any user, the bits of a file's owner decide.
pub(crate) fn command_bound_by_permissions(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]);
    command.arg(env!("CARGO_BIN_EXE_pleach")).args(args).env_remove("PLEACH_REPO").stdin(Stdio::null());
    command
}

/// Runs any command to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot run: {error}"));
    Run::new(output, format!("{command:?}"))
}

/// Runs any command to its end without its messages. Returns whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Run {
    /// The result of a process.
    pub(crate) fn new(output: Output, line: String) -> Run {
        use std::os::unix::process::ExitStatusExt;
        let status = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Run { status, stdout: text(output.stdout), stderr: text(output.stderr), line }
    }

    /// Asserts the exit status.
    #[track_caller]
    pub(crate) fn expect(self, status: i32) -> Run {
        assert_eq!(
            self.status, status,
            "exit status of {}\n--- stdout\n{}\n--- stderr\n{}",
            self.line, self.stdout, self.stderr
        );
        self
    }

    /// Asserts that stderr contains `text`, in any case.
    #[track_caller]
    pub(crate) fn saying(self, text: &str) -> Run {
        assert!(
            self.stderr.to_lowercase().contains(&text.to_lowercase()),
            "stderr of {} should say {text:?}:\n{}",
            self.line,
            self.stderr
        );
        self
    }

    /// The lines of `--json`.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in the line {line:?}"));
        self.stdout.lines().map(line).collect()
    }

    /// The last line of `--json`, which is the summary.
    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        let last = self.json().pop().unwrap_or_else(|| panic!("no line of JSON from {}:\n{}", self.line, self.stderr));
        assert_eq!(last["type"], "summary", "the last line is the summary");
        last
    }
}

/// An integer field of a summary.
#[track_caller]
pub(crate) fn number(summary: &Value, field: &str) -> u64 {
    summary[field].as_u64().unwrap_or_else(|| panic!("no integer {field:?} in {summary}"))
}
