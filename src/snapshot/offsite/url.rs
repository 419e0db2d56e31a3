//! The address of a store, written as restic writes it. It never has a secret in it.

use crate::error::{Error, Result};
use crate::snapshot::ssh::Host;
use crate::util::text;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The forms, for errors.
const FORMS: &str = "a store is a path, sftp:HOST:/PATH, rest:https://HOST/, s3:https://HOST/BUCKET/PATH, \
                     b2:BUCKET:PATH or azure:CONTAINER:/PATH";

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Url {
    /// A directory.
    Local(PathBuf),
    /// A directory on a host that is reached with ssh.
    Sftp {
        /// The host.
        host: Host,
        /// The directory; if relative, below the user's home.
        path: String,
    },
    /// A REST server of restic: `http://…` or `https://…`.
    Rest(String),
    /// A bucket of S3 or something that understands its protocol.
    S3 {
        /// `https://HOST[:PORT]`.
        endpoint: String,
        /// The bucket.
        bucket: String,
        /// The beginning of the names in it.
        prefix: String,
    },
    /// A bucket of Backblaze B2.
    B2 {
        /// The bucket.
        bucket: String,
        /// The beginning of the names in it.
        prefix: String,
    },
    /// A container of Azure Blob Storage.
    Azure {
        /// The container.
        container: String,
        /// The beginning of the names in it.
        prefix: String,
    },
}

impl Url {
    /// Reads an address.
    ///
    /// # Errors
    /// Of kind `Usage`, if it has no known form, or a password in it.
    pub fn parse(address: &OsStr) -> Result<Url> {
        let bytes = address.as_bytes();
        let is_path = bytes.starts_with(b"/") || bytes.starts_with(b"./") || bytes.starts_with(b"../");
        if bytes.is_empty() {
            return Err(refuse(FORMS));
        }
        if is_path {
            return Ok(Url::Local(address.into()));
        }
        if let Some(path) = bytes.strip_prefix(b"local:") {
            return if path.is_empty() { Err(refuse(FORMS)) } else { Ok(Url::Local(OsStr::from_bytes(path).into())) };
        }
        let Some(colon) = bytes.iter().position(|byte| *byte == b':') else { return Ok(Url::Local(address.into())) };
        let text = address.to_str().ok_or_else(|| refuse("the address of a store is UTF-8, unless it is a path"))?;
        let (scheme, rest) = (&text[..colon], &text[colon + 1..]);
        if text.chars().any(text::is_unprintable) {
            return Err(refuse("the address has a control character"));
        }
        match scheme {
            "sftp" => sftp(rest),
            "rest" => rest_server(rest),
            "s3" => s3(rest),
            "b2" => {
                let (bucket, prefix) = bucket_and_prefix(rest, "write b2:BUCKET:PATH")?;
                Ok(Url::B2 { bucket, prefix })
            }
            "azure" => {
                let (container, prefix) = bucket_and_prefix(rest, "write azure:CONTAINER:/PATH")?;
                Ok(Url::Azure { container, prefix })
            }
            _ => Err(Error::usage(format!("use the store '{}'", text::escape(scheme.as_ref())))
                .because(io::Error::other("unknown kind of store"))
                .hint(format!("{FORMS}; a path with a colon in it begins with a slash"))),
        }
    }
}

fn refuse(why: &str) -> Error {
    Error::usage("use this store").hint(why)
}

/// `[USER@]HOST:PATH`, or `//[USER@]HOST[:PORT]/PATH`.
fn sftp(rest: &str) -> Result<Url> {
    let form = || refuse("write sftp:[USER@]HOST:PATH or sftp://[USER@]HOST[:PORT]/PATH");
    if has_password(rest) {
        return Err(password());
    }
    // Two slashes make an absolute path, as in restic.
    let authority = rest.strip_prefix("//").map(|rest| rest.split_once('/').ok_or_else(form)).transpose()?;
    let (host, path) = match authority {
        Some(parts) => parts,
        None => {
            // The one in brackets has colons itself.
            let bracket = rest.find('[').filter(|at| is_user(&rest[..*at]));
            let after = bracket.map_or(Some(0), |at| Some(at + rest[at..].find(']')?)).ok_or_else(form)?;
            let colon = rest[after..].find(':').ok_or_else(form)? + after;
            (&rest[..colon], &rest[colon + 1..])
        }
    };
    if path.is_empty() {
        return Err(form());
    }
    let host = Host::parse(host).map_err(|mistake| form().because(io::Error::other(mistake)))?;
    Ok(Url::Sftp { host, path: path.into() })
}

/// Whether this begins with `USER:PASSWORD@HOST:` or `//USER:PASSWORD@HOST`.
fn has_password(rest: &str) -> bool {
    let beginning = rest.trim_start_matches('/').split('/').next().unwrap_or_default();
    let parts = beginning.split_once('@');
    parts.is_some_and(|(user, host)| user.contains(':') && (host.contains(':') || rest.starts_with("//")))
}

/// Whether this is `USER@` or nothing.
fn is_user(text: &str) -> bool {
    text.is_empty() || text.ends_with('@') && !text.contains([':', '/'])
}

fn rest_server(rest: &str) -> Result<Url> {
    let form = || refuse("write rest:http://HOST[:PORT]/PATH or rest:https://HOST[:PORT]/PATH");
    let (scheme, after) = rest.split_once("://").filter(|(scheme, _)| is_http(scheme)).ok_or_else(form)?;
    let authority = after.split('/').next().unwrap_or_default();
    without_user(authority)?;
    if authority.is_empty() || after.contains(['?', '#']) {
        return Err(form());
    }
    Ok(Url::Rest(format!("{scheme}://{}/", after.trim_end_matches('/'))))
}

/// `https://HOST[:PORT]/BUCKET[/PREFIX]`, or without the scheme.
fn s3(rest: &str) -> Result<Url> {
    let form = || refuse("write s3:https://HOST[:PORT]/BUCKET/PATH or s3:HOST/BUCKET/PATH");
    let (scheme, after) = rest.split_once("://").unwrap_or(("https", rest));
    let (authority, path) = after.split_once('/').ok_or_else(form)?;
    without_user(authority)?;
    let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
    if !is_http(scheme) || authority.is_empty() || bucket.is_empty() {
        return Err(form());
    }
    let (endpoint, prefix) = (format!("{scheme}://{authority}"), prefix.trim_matches('/').into());
    Ok(Url::S3 { endpoint, bucket: bucket.into(), prefix })
}

fn bucket_and_prefix(rest: &str, form: &str) -> Result<(String, String)> {
    let (bucket, prefix) = rest.split_once(':').unwrap_or((rest, ""));
    if bucket.is_empty() || bucket.contains(['/', '@']) {
        return Err(refuse(form));
    }
    Ok((bucket.into(), prefix.trim_matches('/').into()))
}

fn is_http(scheme: &str) -> bool {
    matches!(scheme, "http" | "https")
}

/// A name and a password in an address can be seen by other users of the machine.
fn without_user(authority: &str) -> Result<()> {
    if authority.contains('@') { Err(password()) } else { Ok(()) }
}

fn password() -> Error {
    Error::usage("use an address with a user or a password in it")
        .because(io::Error::other("everybody on this machine can see it"))
        .hint("use the environment or a file for credentials: see pleach offsite --help")
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Url::Local(path) => f.write_str(&text::escape(path.as_os_str())),
            Url::Sftp { host, path } => {
                let short = format!("{host}:{path}");
                if host.has_port() || has_password(&short) {
                    write!(f, "sftp://{host}/{path}")
                } else {
                    write!(f, "sftp:{short}")
                }
            }
            Url::Rest(url) => write!(f, "rest:{url}"),
            Url::S3 { endpoint, bucket, prefix } => write!(f, "s3:{endpoint}/{}", joined(bucket, "/", prefix)),
            Url::B2 { bucket, prefix } => write!(f, "b2:{}", joined(bucket, ":", prefix)),
            Url::Azure { container, prefix } => write!(f, "azure:{}", joined(container, ":/", prefix)),
        }
    }
}

fn joined(bucket: &str, between: &str, prefix: &str) -> String {
    if prefix.is_empty() { bucket.to_string() } else { format!("{bucket}{between}{prefix}") }
}

/// The path of a local store.
pub(super) fn local(url: &Url) -> Option<&Path> {
    match url {
        Url::Local(path) => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(address: &str) -> Url {
        Url::parse(address.as_ref()).unwrap()
    }

    #[test]
    fn an_address_is_written_as_it_was_read() {
        for address in [
            "/srv/restic",
            "relative/path",
            "sftp:ann@nas:/srv/restic",
            "sftp:nas:restic",
            "sftp:[::1]:/srv/a]b:c",
            "sftp:ann@[fe80::1]:srv",
            "sftp:nas:/srv/[a]:b",
            "sftp:nas:ann@work",
            "sftp://nas/ann@work:1/x",
            "sftp:[::1]:/srv",
            "sftp://ann@nas:2222//srv/restic",
            "rest:https://nas:8000/web/",
            "s3:http://127.0.0.1:8333/bucket/web",
            "s3:https://s3.amazonaws.com/bucket",
            "b2:bucket:web",
            "azure:container:/web",
        ] {
            assert_eq!(parsed(address).to_string(), address);
        }
        assert_eq!(parsed("local:a:b"), Url::Local("a:b".into()));
        assert_eq!(parsed("rest:http://nas:8000").to_string(), "rest:http://nas:8000/");
        assert_eq!(parsed("s3:s3.amazonaws.com/bucket/"), parsed("s3:https://s3.amazonaws.com/bucket"));
    }

    #[test]
    fn a_wrong_address_is_refused_and_says_how_to_write_it() {
        for address in [
            "",
            "local:",
            "ftp://host/",
            "s3:host",
            "s3:https://host//x",
            "rest:host",
            "sftp:host",
            "b2:",
            "azure:a/b:c",
            "sftp:-oProxyCommand=x:/y",
            "sftp:a@-x:/y",
            "sftp://host:99999/x",
            "sftp://a:b:22/x",
            "sftp://::1/x",
            "sftp:[::1:/x",
            "sftp://a]/x",
            "sftp:[]:/x",
            "sftp://[@nas/x",
            "sftp:@nas:/x",
        ] {
            let error = Url::parse(address.as_ref()).unwrap_err();
            assert_eq!(error.code(), "usage", "{address}");
            assert!(error.to_string().contains("PATH"), "{address}: {error}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        for address in [
            "rest:https://ann:secret@nas/",
            "s3:https://key:secret@host/bucket",
            "sftp://ann:secret@nas/x",
            "sftp:ann:secret@nas:/x",
        ] {
            let error = Url::parse(address.as_ref()).unwrap_err().to_string();
            assert!(error.contains("credentials") && !error.contains("secret"), "{error}");
        }
    }
}
