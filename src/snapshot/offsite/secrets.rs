//! The password of a store and the keys of its host: from the environment, or from files that nobody else can read.

use crate::error::{Error, Result};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The longest file of secrets, in bytes.
const LONGEST: u64 = 64 << 10;

/// The names that a file of credentials may have.
const NAMES: [&str; 15] = [
    "RESTIC_PASSWORD",
    "RESTIC_PASSWORD_FILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION",
    "B2_ACCOUNT_ID",
    "B2_ACCOUNT_KEY",
    "AZURE_ACCOUNT_NAME",
    "AZURE_ACCOUNT_KEY",
    "AZURE_ACCOUNT_SAS",
    "AZURE_ENDPOINT",
    "AZURE_ENDPOINT_SUFFIX",
    "RESTIC_REST_USERNAME",
    "RESTIC_REST_PASSWORD",
];

/// Where the secrets are.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// The password is the text of this file, without blanks and line breaks at its ends.
    pub password_file: Option<PathBuf>,
    /// Lines `NAME=VALUE`, which replace the environment's.
    pub credentials_file: Option<PathBuf>,
}

/// The values of names, and the password.
pub(super) struct Credentials {
    file: BTreeMap<String, String>,
    pub(super) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Secrets {
    /// Reads them.
    pub(super) fn read(&self) -> Result<Credentials> {
        let file = match &self.credentials_file {
            Some(path) => parse(&private_text(path)?)
                .map_err(|line| Error::failed("read the credentials in").at(path).because(io::Error::other(line)))?,
            None => BTreeMap::new(),
        };
        let mut credentials = Credentials { file, password: String::new() };
        let source = self.password_file.clone().map(Source::File).or_else(|| credentials.source_of_password());
        let (password, from) = match source {
            Some(Source::Text(password)) => (password, "RESTIC_PASSWORD".into()),
            Some(Source::File(path)) => (password_of(&private_text(&path)?), path),
            None => {
                let hint = "give --password-file, or set RESTIC_PASSWORD or RESTIC_PASSWORD_FILE";
                return Err(Error::usage("open the store without its password").hint(hint));
            }
        };
        if password.is_empty() {
            return Err(Error::failed("use the empty password in").at(from));
        }
        credentials.password = password;
        Ok(credentials)
    }
}

/// Where the password is.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    Text(String),
    File(PathBuf),
}

impl Source {
    /// The one that these values name.
    fn among(get: impl Fn(&str) -> Option<String>) -> Option<Source> {
        let get = |name| get(name).filter(|value| !value.is_empty());
        get("RESTIC_PASSWORD")
            .map(Source::Text)
            .or_else(|| get("RESTIC_PASSWORD_FILE").map(|path| Source::File(path.into())))
    }
}

impl Credentials {
    /// The value of a name, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let value = self.file.get(name).cloned().or_else(|| std::env::var(name).ok());
        value.filter(|value| !value.is_empty())
    }

    /// Where the password is: the file's word counts before any of the environment.
    fn source_of_password(&self) -> Option<Source> {
        Source::among(|name| self.file.get(name).cloned()).or_else(|| Source::among(|name| std::env::var(name).ok()))
    }

    /// The value of a name that the store needs.
    pub(super) fn need(&self, name: &str) -> Result<String> {
        let hint = || format!("set {name}, or give it in a file: --credentials-file");
        self.get(name).ok_or_else(|| Error::usage(format!("use the store without {name}")).hint(hint()))
    }
}

/// The text of a file that only its owner can read.
fn private_text(path: &Path) -> Result<String> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let failed = |cause: io::Error| Error::io("read", path, cause);
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    // A pipe, as of `<(…)`, belongs to this process.
    if found.is_file() && found.mode() & 0o077 != 0 {
        let words = OsString::from(format!("chmod 600 {}", crate::util::text::path(path)));
        return Err(Error::failed("use the secrets in")
            .at(path)
            .because(io::Error::other(format!("others can read it (mode {:04o})", found.mode() & 0o7777)))
            .hint(words.to_string_lossy())
            .with_code("file-not-private"));
    }
    if found.is_file() && found.uid() != rustix::process::geteuid().as_raw() && found.uid() != 0 {
        return Err(Error::failed("use the secrets in")
            .at(path)
            .because(io::Error::other("it belongs to another user"))
            .with_code("file-not-private"));
    }
    // Reading a pipe must wait for its writer.
    if !found.is_file() {
        let status = rustix::fs::fcntl_getfl(&file).map_err(|errno| failed(errno.into()))?;
        rustix::fs::fcntl_setfl(&file, status - OFlags::NONBLOCK).map_err(|errno| failed(errno.into()))?;
    }
    let mut text = String::new();
    let length = file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > LONGEST {
        return Err(failed(io::Error::other("it is too long")));
    }
    Ok(text)
}

/// The password in a file, as restic reads it: without a byte order mark, and without blanks and line breaks at its
/// ends.
fn password_of(text: &str) -> String {
    text.trim_start_matches('\u{feff}').trim().to_string()
}

/// The lines `NAME=VALUE`; comments begin with `#`. A value may be in quotes, and `export` before a name is ignored, so
/// that a shell can read the file too.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = format!("line {}", number + 1);
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or_else(|| format!("{at} is not NAME=VALUE"))?;
        if !NAMES.contains(&name) {
            // An unknown name may be a secret.
            return Err(format!("{at} has an unknown name; the names are {}", NAMES.join(", ")));
        }
        let quoted = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
        values.insert(name.to_string(), value.to_string());
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn credentials_are_lines_that_a_shell_can_read_too() {
        let values = parse("# S3\nexport AWS_ACCESS_KEY_ID=\"a b\"\n\n B2_ACCOUNT_KEY='k=1'\n").unwrap();
        assert_eq!(values["AWS_ACCESS_KEY_ID"], "a b");
        assert_eq!(values["B2_ACCOUNT_KEY"], "k=1");
        let error = parse("RESTIC_PASSWORD=x\nsecret").unwrap_err();
        assert!(error.contains("line 2") && !error.contains("secret"), "{error}");
        assert!(!parse("SECRET=s3cret").unwrap_err().contains("s3cret"));
    }

    #[test]
    fn a_password_as_text_is_preferred_among_values_from_one_place() {
        let among = |values: &str| {
            let values = parse(values).unwrap();
            Source::among(|name| values.get(name).cloned())
        };
        assert_eq!(among("RESTIC_PASSWORD_FILE=f\nRESTIC_PASSWORD=t"), Some(Source::Text("t".into())));
        assert_eq!(among("RESTIC_PASSWORD_FILE=f\nRESTIC_PASSWORD="), Some(Source::File("f".into())));
        assert_eq!(among(""), None);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_the_cure() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        std::fs::write(&path, "s3same\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let secrets = Secrets { password_file: Some(path.clone()), ..Secrets::default() };
        let error = secrets.read().unwrap_err();
        assert_eq!(error.code(), "file-not-private");
        assert!(error.to_string().contains("chmod 600") && !error.to_string().contains("s3same"), "{error}");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(secrets.read().unwrap().password, "s3same");
    }
}
