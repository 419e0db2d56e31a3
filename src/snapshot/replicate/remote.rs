//! A repository on another host, reached by ssh(1): the user's own program, with its configuration and keys.

use super::session::{Selection, Session, Stats};
use crate::error::{Error, Result};
use crate::util::process::ending;
use std::ffi::{OsStr, OsString};
use std::io::BufReader;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

/// The program that connects, with its options; otherwise `ssh`.
const SSH: &str = "PLEACH_SSH";
/// The command over there; otherwise `pleach`.
const REMOTE: &str = "PLEACH_REMOTE";

/// Where snapshots are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A repository at a path.
    Path(PathBuf),
    /// One on another host.
    Host(Host),
}

/// A repository on another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    user: Option<String>,
    name: String,
    port: Option<u16>,
    path: OsString,
}

impl Destination {
    /// Reads a path, or `ssh://[user@]host[:port]/path`.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn parse(text: &OsStr) -> std::result::Result<Destination, String> {
        let Some(rest) = text.as_bytes().strip_prefix(b"ssh://") else { return Ok(Destination::Path(text.into())) };
        let form = "write ssh://[USER@]HOST[:PORT]/PATH";
        let slash = rest.iter().position(|byte| *byte == b'/').ok_or_else(|| format!("the path is missing; {form}"))?;
        let (place, path) = rest.split_at(slash);
        let place = std::str::from_utf8(place).map_err(|_| format!("the host is not UTF-8; {form}"))?;
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        // An address of IPv6 is in brackets, because it has colons.
        let (name, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, rest)) => (name, rest.strip_prefix(':')),
            None => match place.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (place, None),
            },
        };
        let port = port.map(|port| port.parse().map_err(|_| format!("'{port}' is no port; {form}"))).transpose()?;
        // ssh would take these for options.
        if name.is_empty() || name.starts_with('-') || user.is_some_and(|user| user.is_empty() || user.starts_with('-'))
        {
            return Err(format!("the host is missing or begins with '-'; {form}"));
        }
        let path = OsString::from_vec(path.to_vec());
        Ok(Destination::Host(Host { user: user.map(str::to_string), name: name.to_string(), port, path }))
    }
}

/// Runs a session with a receiver over there.
pub(super) fn run(host: &Host, session: &Session<'_>, selection: &Selection) -> Result<Stats> {
    let mut command = command(host);
    let program = command.get_program().to_os_string();
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|cause| Error::not_started(&program, cause))?;
    let (Some(to), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::failed("connect to").at(&host.name));
    };
    // Both pipes close here, so the program ends.
    let sent = session.run(selection, to, BufReader::new(replies));
    let ended = child.wait().map_err(|cause| Error::failed("wait for ssh").because(cause))?;
    match sent {
        // The receiver said what is wrong.
        Err(error) if error.code() == "receiver-failed" || ended.success() => Err(error),
        Err(_) if !ended.success() => Err(unreached(host, ended)),
        sent => sent,
    }
}

fn command(host: &Host) -> Command {
    let ssh = std::env::var_os(SSH).filter(|ssh| !ssh.is_empty()).unwrap_or_else(|| "ssh".into());
    let mut words = ssh.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let mut command = Command::new(words.next().unwrap_or(OsStr::new("ssh")));
    command.args(words);
    if let Some(port) = host.port {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(user) = &host.user {
        command.arg("-l").arg(user);
    }
    let remote = std::env::var_os(REMOTE).filter(|remote| !remote.is_empty()).unwrap_or_else(|| "pleach".into());
    let mut line = remote.into_vec();
    line.extend_from_slice(b" receive --stdio -- ");
    line.extend_from_slice(&quoted(host.path.as_bytes()));
    command.arg("--").arg(&host.name).arg(OsString::from_vec(line));
    command
}

/// A word for the shell over there.
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

/// Why there is no receiver. ssh and the shell over there have written their own messages to stderr.
fn unreached(host: &Host, ended: ExitStatus) -> Error {
    let error = Error::failed("replicate to").at(&host.name).because(std::io::Error::other(ending(ended)));
    match ended.code() {
        Some(255) => error.hint("ssh cannot connect: its message is above").with_code("no-connection"),
        Some(126 | 127) => {
            error.hint("install pleach over there, or set PLEACH_REMOTE to its path").with_code("no-receiver")
        }
        Some(2) => error.hint("the pleach over there may be too old: it must know `receive`").with_code("no-receiver"),
        _ => error.hint("the connection was lost; the next run goes on").with_code("connection-lost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_path() {
        let parse = |text: &str| match Destination::parse(OsStr::new(text)) {
            Ok(Destination::Host(Host { user, name, port, path })) => {
                Some((user.unwrap_or_default(), name, port.unwrap_or(0), path.into_string().unwrap()))
            }
            _ => None,
        };
        let host = |user: &str, name: &str, port, path: &str| Some((user.into(), name.into(), port, path.into()));
        assert_eq!(parse("ssh://ann@nas:2222/backup/x"), host("ann", "nas", 2222, "/backup/x"));
        assert_eq!(parse("ssh://nas/"), host("", "nas", 0, "/"));
        assert_eq!(parse("ssh://[::1]:22/b"), host("", "::1", 22, "/b"));
        for wrong in
            ["ssh://nas", "ssh:///b", "ssh://-oProxyCommand=x/b", "ssh://nas:x/b", "ssh://@nas/b", "ssh://-l@n/b"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
            assert!(Destination::parse(OsStr::new(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(Destination::parse(OsStr::new("/b")), Ok(Destination::Path("/b".into())));
    }

    #[test]
    fn the_path_is_one_word_for_the_shell() {
        assert_eq!(quoted(b"/a b'c"), b"'/a b'\\''c'");
    }
}
