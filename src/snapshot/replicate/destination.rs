//! Where snapshots are sent: a path, or a path of another host.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU16;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// The form of an address.
const FORM: &str = "write ssh://[USER@]HOST[:PORT]/PATH";

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
    pub(super) user: Option<String>,
    pub(super) name: String,
    pub(super) port: Option<NonZeroU16>,
    pub(super) path: OsString,
}

impl Destination {
    /// Reads a path, or `ssh://[user@]host[:port]/path`.
    ///
    /// # Errors
    /// The mistake in the address.
    pub fn parse(text: &OsStr) -> Result<Destination, String> {
        let bytes = text.as_bytes();
        if let Some(rest) = bytes.strip_prefix(b"ssh://") {
            return host(rest).map(Destination::Host);
        }
        let first = bytes.split(|byte| *byte == b'/').next().unwrap_or_default();
        if bytes.is_empty() {
            return Err("the destination is empty".to_string());
        }
        // `nas:backup`, as scp and rsync have it, must not become a directory here.
        if first.contains(&b':') {
            let shown = text.to_string_lossy();
            return Err(format!("for another host, {FORM}; for a path of this machine, write './{shown}'"));
        }
        Ok(Destination::Path(text.into()))
    }

    /// It as the user wrote it.
    pub fn shown(&self) -> OsString {
        match self {
            Destination::Path(path) => path.clone().into_os_string(),
            Destination::Host(host) => host.url(),
        }
    }
}

fn host(address: &[u8]) -> Result<Host, String> {
    let slash = address.iter().position(|byte| *byte == b'/').ok_or_else(|| format!("the path is missing; {FORM}"))?;
    let (place, path) = address.split_at(slash);
    let place = std::str::from_utf8(place).map_err(|_| format!("the host is not UTF-8; {FORM}"))?;
    let (user, place) = match place.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, place),
    };
    // An address of IPv6 is in brackets, because it has colons.
    let (name, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, rest)) => match rest.strip_prefix(':') {
            Some(port) => (name, Some(port)),
            None => return Err(format!("'{rest}' is no port; {FORM}")),
        },
        None => match place.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (place, None),
        },
    };
    let port = port.map(|port| port.parse().map_err(|_| format!("'{port}' is no port; {FORM}"))).transpose()?;
    if name.is_empty() {
        return Err(format!("the host is missing; {FORM}"));
    }
    if user.is_some_and(|user| user.contains(':')) {
        return Err(format!("an address has no password: ssh asks for it, or uses a key; {FORM}"));
    }
    // ssh would take a word that begins with '-' for an option.
    let is_wrong = |word: &str| {
        word.is_empty() || word.starts_with('-') || word.contains(|c: char| c.is_whitespace() || "[]\"'".contains(c))
    };
    if let Some(wrong) = [Some(name), user].into_iter().flatten().find(|word| is_wrong(word)) {
        return Err(format!("'{wrong}' is no name of a host or user; {FORM}"));
    }
    let path = OsString::from_vec(path.to_vec());
    Ok(Host { user: user.map(str::to_string), name: name.to_string(), port, path })
}

impl Host {
    /// The address.
    pub(super) fn url(&self) -> OsString {
        let user = self.user.iter().map(|user| format!("{user}@")).collect::<String>();
        let port = self.port.iter().map(|port| format!(":{port}")).collect::<String>();
        let name = if self.name.contains(':') { format!("[{}]", self.name) } else { self.name.clone() };
        let mut url = OsString::from(format!("ssh://{user}{name}{port}"));
        url.push(&self.path);
        url
    }

    /// The words by which ssh(1) finds the host.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(port) = self.port {
            words.extend(["-p".to_string(), port.to_string()]);
        }
        if let Some(user) = &self.user {
            words.extend(["-l".to_string(), user.clone()]);
        }
        words.extend(["--".to_string(), self.name.clone()]);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(String, String, u16, String)> {
        match Destination::parse(OsStr::new(text)) {
            Ok(Destination::Host(Host { user, name, port, path })) => {
                Some((user.unwrap_or_default(), name, port.map_or(0, u16::from), path.into_string().unwrap()))
            }
            _ => None,
        }
    }

    #[test]
    fn an_address_has_a_host_and_a_path() {
        let host = |user: &str, name: &str, port, path: &str| Some((user.into(), name.into(), port, path.into()));
        assert_eq!(parse("ssh://ann@nas:2222/backup/x"), host("ann", "nas", 2222, "/backup/x"));
        assert_eq!(parse("ssh://nas/"), host("", "nas", 0, "/"));
        assert_eq!(parse("ssh://[::1]:22/b"), host("", "::1", 22, "/b"));
        assert_eq!(parse("ssh://a@[fe80::1%eth0]/a b'c"), host("a", "fe80::1%eth0", 0, "/a b'c"));
        for wrong in [
            "ssh://nas",
            "ssh:///b",
            "ssh://-oProxyCommand=x/b",
            "ssh://nas:x/b",
            "ssh://@nas/b",
            "ssh://-l@n/b",
            "ssh://nas:0/b",
            "ssh://nas:/b",
            "ssh://[::1/b",
            "ssh://[::1]22/b",
            "ssh://ann:secret@nas/b",
            "ssh://a b/c",
            "nas:/backup",
            "ann@nas:backup",
            "sftp://nas/b",
            "",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
            assert!(Destination::parse(OsStr::new(wrong)).is_err(), "{wrong}");
        }
        for path in ["/b", "b", "./nas:b", "/a:b"] {
            assert_eq!(Destination::parse(OsStr::new(path)), Ok(Destination::Path(path.into())));
        }
    }

    #[test]
    fn an_address_is_shown_as_it_was_written() {
        for text in ["ssh://ann@nas:2222/b", "ssh://[::1]/b c", "/backup"] {
            assert_eq!(Destination::parse(OsStr::new(text)).unwrap().shown(), text);
        }
    }
}
