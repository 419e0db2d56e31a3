//! ssh: the address of a host, and the program that connects to it. It is the user's own, with its configuration and
//! keys.

use crate::error::{Error, Result};
use crate::util::text;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU16;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::{Command, Stdio};

/// The program that connects, with its options; otherwise `ssh`.
const SSH: &str = "PLEACH_SSH";
/// How ssh notices that the other host is gone: after five minutes, and not after the hours that TCP takes.
const ALIVE: [&str; 4] = ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=20"];

/// A host that ssh reaches, as `[USER@]HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    user: Option<String>,
    /// Without the brackets of an IPv6 address.
    name: String,
    port: Option<NonZeroU16>,
}

impl Host {
    /// Reads `[USER@]HOST[:PORT]`. An IPv6 address is in brackets, because it has colons.
    ///
    /// # Errors
    /// The mistake. It never repeats a password.
    pub(super) fn parse(text: &str) -> Result<Host, String> {
        let (user, place) = match text.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, text),
        };
        if user.is_some_and(|user| user.contains(':')) {
            return Err("an address has no password: ssh asks for it, or uses a key".into());
        }
        let (name, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, rest)) => match rest.strip_prefix(':') {
                Some(port) => (name, Some(port)),
                None => return Err(format!("'{rest}' is not a valid port")),
            },
            None => match place.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (place, None),
            },
        };
        let port = port.map(|port| port.parse().map_err(|_| format!("'{port}' is not a valid port"))).transpose()?;
        if name.is_empty() {
            return Err("the host is missing".into());
        }
        // ssh would take a word that begins with '-' for an option.
        let is_wrong = |word: &str| {
            let is_never = |c: char| c.is_whitespace() || "[]\"'/".contains(c);
            word.is_empty() || word.starts_with('-') || word.contains(is_never)
        };
        if let Some(wrong) = [Some(name), user].into_iter().flatten().find(|word| is_wrong(word)) {
            return Err(format!("'{wrong}' is not a valid host or user name"));
        }
        Ok(Host { user: user.map(str::to_string), name: name.to_string(), port })
    }

    /// Its name or address alone.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether its address names a port.
    #[cfg(feature = "offsite")]
    pub(super) fn has_port(&self) -> bool {
        self.port.is_some()
    }

    /// The words by which ssh(1) finds it.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = self.options();
        words.extend(["--".to_string(), self.name.clone()]);
        words
    }

    fn options(&self) -> Vec<String> {
        let port = self.port.iter().flat_map(|port| ["-p".to_string(), port.to_string()]);
        port.chain(self.user.iter().flat_map(|user| ["-l".to_string(), user.clone()])).collect()
    }

    /// The command with which a user sees why it cannot be reached.
    pub(super) fn trial(&self) -> String {
        let words = ["ssh".to_string()].into_iter().chain(self.options()).chain([self.name.clone()]);
        words.collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.name.contains(':') { write!(f, "[{}]", self.name) } else { f.write_str(&self.name) }?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Checks the variable that names the program.
///
/// # Errors
/// Kind `Usage` if it has an open quote.
pub(super) fn check_program() -> Result<()> {
    let Some(quote) = words(configured().as_bytes()).1 else { return Ok(()) };
    let cause = std::io::Error::other(format!("the quote {} is open", char::from(quote)));
    let shown = text::escape(&configured());
    Err(Error::usage("run the command in PLEACH_SSH").because(cause).hint(format!("close it: {shown}")))
}

/// The program that connects to this host, with its options. The words of the host must follow.
pub(super) fn connecting(host: &Host) -> Command {
    let mut command = program();
    if has_no_timeout(host) {
        command.args(ALIVE);
    }
    command
}

/// The program with its options, as the user wrote them.
fn configured() -> OsString {
    std::env::var_os(SSH).filter(|ssh| !ssh.is_empty()).unwrap_or_else(|| "ssh".into())
}

fn program() -> Command {
    let mut words = words(configured().as_bytes()).0.into_iter();
    let mut command = Command::new(words.next().unwrap_or_else(|| "ssh".into()));
    command.args(words);
    command
}

/// Whether ssh has no timeout for a host that is gone, neither in its configuration nor in PLEACH_SSH. Options on the
/// command line win over the configuration, so ssh must be asked first.
fn has_no_timeout(host: &Host) -> bool {
    let mut ask = program();
    ask.arg("-G").args(host.words()).stdin(Stdio::null()).stderr(Stdio::null());
    let Ok(answer) = ask.output() else { return false };
    answer.stdout.split(|byte| *byte == b'\n').any(|line| line.eq_ignore_ascii_case(b"serveraliveinterval 0"))
}

/// The words of a command, and a quote that is open at its end. Quotes of either kind may enclose blanks. A backslash
/// is a byte like any other.
fn words(text: &[u8]) -> (Vec<OsString>, Option<u8>) {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    for byte in text {
        match (quote, *byte) {
            (None, b' ' | b'\t' | b'\n') => words.extend(word.take()),
            (None, b'\'' | b'"') => {
                quote = Some(*byte);
                word.get_or_insert_default();
            }
            (Some(open), byte) if open == byte => quote = None,
            (_, byte) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    (words.into_iter().map(OsString::from_vec).collect(), quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, String, u16)> {
        let Host { user, name, port } = Host::parse(text).ok()?;
        Some((user.unwrap_or_default(), name, port.map_or(0, u16::from)))
    }

    #[test]
    fn an_address_has_a_user_a_name_and_a_port() {
        let host = |user: &str, name: &str, port| Some((user.into(), name.into(), port));
        assert_eq!(parsed("nas"), host("", "nas", 0));
        assert_eq!(parsed("ann@nas:2222"), host("ann", "nas", 2222));
        assert_eq!(parsed("ann@corp@nas"), host("ann@corp", "nas", 0));
        assert_eq!(parsed("[::1]:22"), host("", "::1", 22));
        assert_eq!(parsed("a@[fe80::1%eth0]"), host("a", "fe80::1%eth0", 0));
        for wrong in [
            "",
            "@nas",
            "ann@",
            "-oProxyCommand=x",
            "-l@nas",
            "nas:x",
            "nas:0",
            "nas:",
            "nas:99999",
            "[::1",
            "[::1]22",
            "[]",
            "[@nas",
            "a]",
            "::1",
            "a:b:22",
            "a b",
            "ann:secret@nas",
            "a/b@nas",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_password_is_not_repeated() {
        let mistake = Host::parse("ann:secret@nas:x").unwrap_err();
        assert!(mistake.contains("password") && !mistake.contains("secret"), "{mistake}");
    }

    #[test]
    fn an_address_is_shown_as_it_was_written() {
        for text in ["nas", "ann@nas:2222", "[::1]", "ann@[fe80::1%eth0]:22"] {
            assert_eq!(Host::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn ssh_gets_no_brackets() {
        let host = Host::parse("ann@[::1]:22").unwrap();
        assert_eq!(host.words(), ["-p", "22", "-l", "ann", "--", "::1"]);
        assert_eq!(host.trial(), "ssh -p 22 -l ann ::1");
    }

    #[test]
    fn quotes_enclose_blanks() {
        let split = |text: &str| words(text.as_bytes()).0;
        assert_eq!(split("ssh -F  '/a b/c' -o \"X=y z\"'w' ''"), ["ssh", "-F", "/a b/c", "-o", "X=y zw", ""]);
        assert_eq!(split("  "), Vec::<OsString>::new());
        assert_eq!(split("ssh 'a\\' b\\"), ["ssh", "a\\", "b\\"]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_found() {
        let open = |text: &str| words(text.as_bytes()).1.map(char::from);
        assert_eq!(["ssh", "ssh ''", "ssh '\"'", "ssh \"it's\""].map(open), [None; 4]);
        assert_eq!(["ssh \"/a", "'", "ssh '' 'it\"s"].map(open), [Some('"'), Some('\''), Some('\'')]);
    }
}
