//! Why a conversation with another host ended early, in words for its user.

use super::destination::Remote;
use super::process::{is_of_pleach, without_mark};
use super::replies::First;
use crate::error::{Error, ErrorKind, Result};
use crate::snapshot::ssh::Host;
use crate::snapshot::stream::{Failure, VERSION};
use crate::util::process::ending;
use crate::util::text;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::ExitStatus;

/// The codes of a receiver's errors that programs recognize here too.
const CODES: &[&str] = &[
    "locked",
    "damage",
    "not-found",
    "exists",
    "permission-denied",
    "read-only",
    "no-space",
    "io-error",
    "name-too-long",
    "no-memory",
    "too-many-open-files",
    "unsupported",
    "no-repository",
    "future-snapshot",
];

/// The program that connects cannot be started.
pub(super) fn not_started(host: &Host, program: &OsStr, cause: io::Error) -> Error {
    let what = match cause.kind() {
        io::ErrorKind::NotFound => "install ssh (Debian: openssh-client), or set PLEACH_SSH to a program that connects",
        _ => "PLEACH_SSH may name another program that connects",
    };
    Error::not_started(program, cause).hint_also(&format!("it connects to {}: {what}", host.name()))
}

/// The receiver gave up, and said why.
pub(super) fn by_receiver(to: &OsStr, failure: &Failure) -> Error {
    let code = CODES.iter().find(|code| **code == failure.code).copied().unwrap_or("receiver-failed");
    let kind = match code {
        "locked" => ErrorKind::Locked,
        "damage" => ErrorKind::Damage,
        _ => ErrorKind::Failed,
    };
    let error = Error::new(kind, "replicate to").at(to).because(failure.reason()).with_code(code);
    match kind {
        ErrorKind::Locked => error.hint(
            "if a connection was lost, its receiver ends when sshd on the remote host notices it: ClientAliveInterval \
             in sshd_config makes it notice soon",
        ),
        _ => error,
    }
}

/// The connection ended, made by this program. Takes the cause out of the last messages.
pub(super) fn why(
    (remote, program): (&Remote, &OsStr),
    error: Error,
    ended: Result<ExitStatus>,
    first: &First,
    messages: &mut Vec<String>,
) -> Error {
    let failed = || Error::failed("replicate to").at(remote.url());
    let name = remote.host.name();
    match first {
        First::Other(bytes) => {
            let line = bytes.split(|byte| *byte == b'\n').find(|line| !line.is_empty()).unwrap_or_default();
            let line = text::escape(&OsString::from(String::from_utf8_lossy(line).into_owned()));
            messages.retain(|line| !is_of_pleach(line));
            let cause = format!("{name} sent '{line}', which is not a pleach reply");
            return failed().because(other(&cause)).with_code("no-receiver").hint(
                "if a startup file of the shell on the remote host prints this (as ~/.bashrc), let it print only on a \
                 terminal",
            );
        }
        First::Version(version) => {
            messages.retain(|line| !is_of_pleach(line));
            let (older, where_) = if *version < VERSION { (name, "there") } else { ("this machine", "here") };
            let cause = format!("{name} speaks version {version} of the stream, this pleach version {VERSION}");
            let hint = format!("the pleach on {older} is older: update it {where_}");
            return failed().because(other(&cause)).with_code("other-version").hint(hint);
        }
        First::Nothing | First::Replies => {}
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return error,
    };
    let has_begun = *first == First::Replies;
    // An old pleach explains its usage behind its error.
    let is_usage = ended.code() == Some(2) && !has_begun;
    let cause = if is_usage && !messages.is_empty() { messages.drain(..).next() } else { messages.pop() };
    let because = |error: Error| match &cause {
        Some(line) => error.because(other(without_mark(line))),
        None => error.because(other(&format!("{} {}", text::path(Path::new(program)), ending(ended)))),
    };
    match ended.code() {
        Some(0) if !has_begun => because(failed())
            .hint(format!("the command on the remote host ended without a reply; try: {}", remote.host.trial())),
        Some(0) => error,
        Some(255) if !has_begun => {
            let error = because(Error::failed("connect to").at(name)).with_code("no-connection");
            error.hint(format!("nothing was sent; try: {}", remote.host.trial()))
        }
        Some(126 | 127) => because(Error::failed("run pleach on").at(name))
            .hint("install pleach on the remote host, or set PLEACH_REMOTE to its path there")
            .with_code("no-receiver"),
        Some(2) if !has_begun => because(Error::failed("run pleach on").at(name))
            .hint("the pleach on the remote host is older: it must know `receive`; update it")
            .with_code("no-receiver"),
        Some(_) if !has_begun => because(failed()).with_code("receiver-failed"),
        _ => because(failed())
            .hint("the connection was lost, or the receiver was ended; run the same command to continue")
            .with_code("connection-lost"),
    }
}

fn other(message: &str) -> io::Error {
    io::Error::other(message.to_string())
}
