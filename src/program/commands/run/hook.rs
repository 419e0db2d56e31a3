//! Runs a hook: a command without a shell, in a process group of its own that is ended if the command fails, takes too
//! long, or is interrupted. Its output becomes messages.

use crate::error::{Error, Result};
use crate::program::output::{Output, run as show};
use crate::util::process::{ProcessGroup, ending};
use crate::util::tail::Tail;
use crate::util::text::{self, duration};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, MemfdFlags, OFlags, access, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long hooks may take after the user asked to stop.
const AFTER_INTERRUPTION: Duration = Duration::from_secs(30);
/// How long to wait for output before looking at everything else.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// A longer line is divided.
const LONGEST_LINE: usize = 8 << 10;
/// How often the pipe is read after the end of the command: enough for the largest pipe that anyone may make.
const MOST_READS: u32 = 64;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
    Failed,
    Finally,
}

impl When {
    /// Its name in the profile.
    pub(super) fn name(self) -> &'static str {
        match self {
            When::Before => "before",
            When::After => "after",
            When::Failed => "failed",
            When::Finally => "finally",
        }
    }

    /// Whether an interruption ends it. The others are needed then most of all, and only get less time.
    fn is_interruptible(self) -> bool {
        matches!(self, When::Before | When::After)
    }
}

/// A hook to run.
pub(super) struct Job<'a> {
    pub(super) when: When,
    pub(super) command: &'a [String],
    /// Variables to set, or to remove.
    pub(super) environment: &'a [(&'static str, Option<OsString>)],
    /// What it reads from stdin.
    pub(super) report: Option<&'a str>,
    pub(super) timeout: Duration,
}

/// Runs a hook to its end. The error is why it failed.
pub(super) fn run(job: &Job<'_>, output: &Output) -> (show::Hook, Result<()>) {
    let began = Instant::now();
    let mut lines = Lines { name: job.when.name(), output, part: Vec::new(), tail: Tail::default(), has_more: false };
    let result = start(job).and_then(|(group, pipe)| watch(job, &group, pipe, &mut lines));
    lines.end();
    let status = result.as_ref().ok().and_then(ExitStatus::code);
    let result = result.and_then(|status| match status.success() {
        true => Ok(()),
        false => Err(failed(job, &ending(status))),
    });
    let hook = show::Hook {
        r#type: "hook",
        hook: job.when.name(),
        command: job.command.to_vec(),
        status,
        error: result.as_ref().err().map(ToString::to_string),
        output: lines.tail.text(),
        dry_run: false,
        seconds: began.elapsed().as_secs_f64(),
    };
    (hook, result)
}

/// Whether a hook with this program can start now: it is a file that may be executed, found as exec(3) does.
pub(super) fn is_program(program: &str) -> bool {
    let is_executable = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return is_executable(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).any(|dir| is_executable(&dir.join(program)))
}

fn failed(job: &Job<'_>, why: &str) -> Error {
    let program = job.command.first().map_or("", String::as_str);
    Error::failed(format!("run the hook '{}',", job.when.name()))
        .at(program)
        .because(io::Error::other(why.to_string()))
        .with_code("hook-failed")
}

/// Starts the command with its output in a pipe. The read end does not block.
fn start(job: &Job<'_>) -> Result<(ProcessGroup, File)> {
    let (program, arguments) = job.command.split_first().ok_or_else(|| Error::usage("run a hook without a command"))?;
    let prepared = || -> io::Result<(Command, File)> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&read, fcntl_getfl(&read)? | OFlags::NONBLOCK)?;
        let mut command = Command::new(program);
        command.args(arguments).stdout(write.try_clone()?).stderr(write).stdin(stdin(job.report)?);
        Ok((command, File::from(read)))
    };
    let (mut command, pipe) = prepared().map_err(|cause| failed(job, &text::cause(&cause)))?;
    for (name, value) in job.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let place = format!("the hook '{}'", job.when.name());
    let group = ProcessGroup::start(&mut command)
        .map_err(|cause| Error::not_started(OsStr::new(program), cause).hint_also(&place))?;
    Ok((group, pipe))
}

/// The report in memory: unlike a pipe, it never blocks the writer, whether or not the hook reads it.
fn stdin(report: Option<&str>) -> io::Result<Stdio> {
    let Some(report) = report else { return Ok(Stdio::null()) };
    let mut file = File::from(memfd_create("report", MemfdFlags::CLOEXEC)?);
    file.write_all(report.as_bytes())?;
    file.rewind()?;
    Ok(Stdio::from(file))
}

/// Reads the output until the command has ended. A process that it leaves behind may continue, but is not waited for.
fn watch(job: &Job<'_>, group: &ProcessGroup, mut pipe: File, lines: &mut Lines<'_>) -> Result<ExitStatus> {
    let began = Instant::now();
    let mut interrupted = None;
    let mut is_open = true;
    loop {
        let status = group.status();
        if is_open {
            let mut fds = [PollFd::new(&pipe, PollFlags::IN)];
            let _ = poll(&mut fds, Some(if status.is_some() { &Timespec { tv_sec: 0, tv_nsec: 0 } } else { &TICK }));
            is_open = lines.read(&mut pipe);
        } else {
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(status) = status {
            // Everything that it had written was in the pipe by then. A process that it left behind may write for ever.
            for _ in 0..MOST_READS {
                if is_open && lines.has_more {
                    is_open = lines.read(&mut pipe);
                }
            }
            if status.success() {
                group.reap()
            } else {
                group.end()
            }
            return Ok(status);
        }
        if lines.output.is_interrupted() {
            if job.when.is_interruptible() {
                group.end();
                return Err(Error::interrupted().hint(format!("the hook '{}' was ended", job.when.name())));
            }
            interrupted.get_or_insert_with(Instant::now);
        }
        let is_late = |since: &Instant, most: Duration| since.elapsed() >= most;
        let late = if is_late(&began, job.timeout) {
            Some(job.timeout)
        } else {
            interrupted.filter(|since| is_late(since, AFTER_INTERRUPTION)).map(|_| AFTER_INTERRUPTION)
        };
        if let Some(most) = late {
            group.end();
            let why = format!("it took longer than {} and was ended", duration(most.as_secs_f64()));
            return Err(failed(job, &why).with_code("hook-timeout"));
        }
    }
}

/// The output of a hook, line by line.
struct Lines<'a> {
    name: &'static str,
    output: &'a Output,
    part: Vec<u8>,
    tail: Tail,
    has_more: bool,
}

impl Lines<'_> {
    /// Reads once; returns whether the pipe is still open.
    fn read(&mut self, pipe: &mut File) -> bool {
        let mut buffer = [0; 16 << 10];
        match pipe.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                self.has_more = length == buffer.len();
                self.take(&buffer[..length]);
                true
            }
            Err(error) => {
                self.has_more = false;
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.part.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.part.len() >= LONGEST_LINE {
                self.end();
            }
        }
    }

    /// Ends the line.
    fn end(&mut self) {
        if self.part.is_empty() {
            return;
        }
        // Printing must not take so long that the hook has to wait for it: a run of zeros is printed as its length.
        let line = text::escape_output(String::from_utf8_lossy(&self.part).trim_end_matches(['\n', '\r']));
        self.part.clear();
        self.output.info(&format!("{}: {line}", self.name));
        self.tail.push(line);
    }
}
