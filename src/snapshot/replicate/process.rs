//! The command that runs a receiver on another host, and its process.

use super::destination::Remote;
use crate::error::{Error, Result};
use crate::snapshot::ssh;
use crate::util::mutex::lock;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The command on the remote host; otherwise `pleach`.
const REMOTE: &str = "PLEACH_REMOTE";
/// How long the program may take to end after the user asked to stop, before SIGTERM and before SIGKILL.
const GRACE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(6)];

/// The command that runs a receiver on the remote host. With `must_exist` it makes no repository, with `dry_run` it
/// changes nothing.
///
/// # Errors
/// Kind `Usage` if PLEACH_SSH has an open quote.
pub(super) fn command(to: &Remote, must_exist: bool, dry_run: bool) -> Result<Command> {
    ssh::check_program()?;
    let mut command = ssh::connecting(&to.host);
    let remote = std::env::var_os(REMOTE).filter(|remote| !remote.is_empty()).unwrap_or_else(|| "pleach".into());
    let mut line = remote.into_vec();
    line.extend_from_slice(RECEIVE);
    if must_exist {
        line.extend_from_slice(MUST_EXIST);
    }
    if dry_run {
        line.extend_from_slice(DRY_RUN);
    }
    line.extend_from_slice(b"-- ");
    line.extend_from_slice(&quoted(to.path.as_bytes()));
    command.args(to.host.words()).arg(OsString::from_vec(line));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// A word for the shell on the remote host.
fn quoted(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// The mark at the beginning of a message of pleach.
const MARK: &str = "pleach: ";

/// Whether a message is one of the pleach on the remote host.
pub(super) fn is_of_pleach(line: &str) -> bool {
    line.starts_with(MARK)
}

/// A message without the mark.
pub(super) fn without_mark(line: &str) -> &str {
    line.strip_prefix(MARK).unwrap_or(line)
}

/// The words of a receiver's command line behind the program, in their order.
const RECEIVE: &[u8] = b" receive --stdio ";
const MUST_EXIST: &[u8] = b"--restrict ";
const DRY_RUN: &[u8] = b"--dry-run ";

/// The path in the command line of a receiver, as [`command`] makes it, and whether it is for a dry run. `None`: it is
/// another command.
pub(super) fn asked_in(line: &OsStr) -> Option<(OsString, bool)> {
    let line = line.as_bytes();
    let at = line.windows(RECEIVE.len()).position(|part| part == RECEIVE)?;
    let rest = &line[at + RECEIVE.len()..];
    let rest = rest.strip_prefix(MUST_EXIST).unwrap_or(rest);
    let (rest, dry_run) = rest.strip_prefix(DRY_RUN).map_or((rest, false), |rest| (rest, true));
    let rest = rest.strip_prefix(b"-- ")?;
    let path: Vec<u8> = rest.strip_prefix(b"'")?.strip_suffix(b"'")?.to_vec();
    let path = path.split(|byte| *byte == b'\'').collect::<Vec<_>>();
    let mut out = path.first()?.to_vec();
    // The quotes of `'\''` enclose a backslash and nothing.
    for parts in path[1..].chunks(3) {
        let [b"\\", b"", after] = parts else { return None };
        out.push(b'\'');
        out.extend_from_slice(after);
    }
    Some((OsString::from_vec(out), dry_run))
}

/// The process that connects.
pub(super) struct Connection {
    child: Mutex<Child>,
    /// When the user asked to stop.
    stop: Mutex<Option<Instant>>,
}

impl Connection {
    pub(super) fn new(child: Child) -> Connection {
        Connection { child: Mutex::new(child), stop: Mutex::new(None) }
    }

    /// Ends the process if it does not end by itself. Called again and again.
    pub(super) fn end_soon(&self) {
        let since = lock(&self.stop).get_or_insert_with(Instant::now).elapsed();
        let mut child = lock(&self.child);
        // As long as it was not waited for, no other process has its id.
        if since < GRACE[0] || !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        if since >= GRACE[1] {
            let _ = child.kill();
        } else {
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
    }

    /// Waits for its end.
    pub(super) fn wait(&self) -> Result<ExitStatus> {
        loop {
            match lock(&self.child).try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(cause) => return Err(Error::failed("wait for ssh").because(cause)),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_one_word_for_the_shell_and_is_found_again() {
        assert_eq!(quoted(b"/a b'c"), b"'/a b'\\''c'");
        for path in ["/b", "/a b'c", "/'", "/''x", "/\\'"] {
            for (before, dry_run) in [
                ("pleach receive --stdio -- ", false),
                ("sudo /x/pleach receive --stdio --restrict -- ", false),
                ("pleach receive --stdio --dry-run -- ", true),
                ("pleach receive --stdio --restrict --dry-run -- ", true),
            ] {
                let line = [before.as_bytes(), &quoted(path.as_bytes())].concat();
                assert_eq!(asked_in(OsStr::from_bytes(&line)), Some((path.into(), dry_run)), "{path}");
            }
        }
        for other in ["", "pleach list /b", "pleach receive --stdio -- '/b' ; id'", "sh -c 'receive --stdio'"] {
            assert_eq!(asked_in(OsStr::new(other)), None, "{other}");
        }
    }
}
