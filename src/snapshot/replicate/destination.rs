//! Where snapshots are sent: a path, or a path of another host.

use crate::snapshot::ssh::Host;
use std::ffi::{OsStr, OsString};
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
    Remote(Remote),
}

/// A repository on another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    pub(super) host: Host,
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
            return remote(rest).map(Destination::Remote);
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
            Destination::Remote(remote) => remote.url(),
        }
    }
}

fn remote(address: &[u8]) -> Result<Remote, String> {
    let slash = address.iter().position(|byte| *byte == b'/').ok_or_else(|| format!("the path is missing; {FORM}"))?;
    let (host, path) = address.split_at(slash);
    let host = std::str::from_utf8(host).map_err(|_| format!("the host is not UTF-8; {FORM}"))?;
    let host = Host::parse(host).map_err(|mistake| format!("{mistake}; {FORM}"))?;
    Ok(Remote { host, path: OsString::from_vec(path.to_vec()) })
}

impl Remote {
    /// The address.
    pub(super) fn url(&self) -> OsString {
        let mut url = OsString::from(format!("ssh://{}", self.host));
        url.push(&self.path);
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(String, OsString)> {
        match Destination::parse(OsStr::new(text)) {
            Ok(Destination::Remote(Remote { host, path })) => Some((host.to_string(), path)),
            _ => None,
        }
    }

    #[test]
    fn an_address_has_a_host_and_a_path() {
        let remote = |host: &str, path: &str| Some((host.to_string(), path.into()));
        assert_eq!(parse("ssh://ann@nas:2222/backup/x"), remote("ann@nas:2222", "/backup/x"));
        assert_eq!(parse("ssh://nas/"), remote("nas", "/"));
        assert_eq!(parse("ssh://[::1]:22/b"), remote("[::1]:22", "/b"));
        assert_eq!(parse("ssh://a@[fe80::1%eth0]/a b'c"), remote("a@[fe80::1%eth0]", "/a b'c"));
        for wrong in [
            "ssh://nas",
            "ssh:///b",
            "ssh://nas:x/b",
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
