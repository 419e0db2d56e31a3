//! Failures of a store, in one line: the innermost cause, and what to do.

use super::named::WrongHash;
use super::url::Url;
use crate::error::{Error, ErrorKind};
use crate::util::text;
use rustic_core::RusticError;
use std::error::Error as StdError;
use std::io;

/// How many characters of a text from outside are shown.
const LONGEST: usize = 300;
/// The remedy for a host that has a problem of its own.
const LATER: &str = "try again later";

/// A cause that is known well enough for a remedy.
struct Fault {
    cause: String,
    code: &'static str,
    hint: Option<String>,
}

/// The error of an action on a store. `action` completes the sentence "cannot …".
pub(super) fn explain(action: &str, url: &Url, error: &RusticError) -> Error {
    let failed = Error::failed(format!("{action} {url}"));
    if error.is_incorrect_password() {
        let cause = io::Error::other("wrong password");
        return failed
            .because(cause)
            .hint("use the password given to 'pleach offsite init'")
            .with_code("wrong-password");
    }
    if let Some(wrong) = causes(error).find(|cause| cause.is::<WrongHash>()) {
        return damage(action, url, wrong.to_string());
    }
    let Fault { cause, code, hint } =
        known(error, url).unwrap_or_else(|| Fault { cause: in_one_line(error), code: "failed", hint: None });
    let failed = failed.because(io::Error::other(cause)).with_code(code);
    match hint {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}

/// What the library says about an error, without its forms for bug reports.
pub(super) fn in_one_line(error: &RusticError) -> String {
    let log = error.display_log();
    let line = log.strip_prefix("Error: ").unwrap_or(&log);
    let line: Vec<_> = line.split_whitespace().collect();
    shortened(&without_kind(&line.join(" ")))
}

/// The library names the part of itself that failed, and in findings it has the form of a bug report.
pub(super) fn without_kind(line: &str) -> String {
    const FORM: (&str, &str, &str) = ("`rustic_core` experienced an error", "Message: ", " Some additional details");
    if let Some((before, form)) = line.split_once(FORM.0) {
        let message = form.split_once(FORM.1).map_or(form, |(_, message)| message);
        let message = message.split_once(FORM.2).map_or(message, |(message, _)| message);
        return format!("{before}{message}");
    }
    match (line.find(" (kind: related to "), line) {
        (Some(start), line) => {
            let rest = line[start..].find(')').map_or("", |end| &line[start + end + 1..]);
            format!("{}{rest}", line[..start].trim_end_matches('.'))
        }
        (None, line) => line.to_string(),
    }
}

fn known(error: &RusticError, url: &Url) -> Option<Fault> {
    let mut found = None;
    for now in causes(error) {
        if let Some(error) = now.downcast_ref::<opendal::Error>() {
            return Some(of_object(error, url));
        }
        if let Some(error) = now.downcast_ref::<reqwest::Error>() {
            return Some(of_request(error, url));
        }
        if let Some(error) = now.downcast_ref::<io::Error>() {
            found = Some(of_io(error, url));
        }
    }
    found
}

/// What led to an error, outermost first.
pub(super) fn causes(error: &RusticError) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(StdError::source(error), |cause| StdError::source(*cause))
}

fn of_object(error: &opendal::Error, url: &Url) -> Fault {
    use opendal::ErrorKind::{ConfigInvalid, NotFound, PermissionDenied, RateLimited};
    let message = error.message();
    let answer = quoted(message, "code: ");
    let mut chain = StdError::source(error);
    while let Some(now) = chain {
        if let Some(error) = now.downcast_ref::<reqwest::Error>() {
            return of_request(error, url);
        }
        if let Some(error) = now.downcast_ref::<io::Error>().filter(|error| error.raw_os_error().is_some()) {
            return of_io(error, url);
        }
        chain = now.source();
    }
    let words = quoted(message, "message: ").unwrap_or(message);
    let inner = innermost(error);
    let cause = match (answer, words.is_empty()) {
        (Some(answer), false) => format!("{answer}: {words}"),
        (Some(answer), true) => answer.to_string(),
        (None, _) => inner.unwrap_or_else(|| words.to_string()),
    };
    let cause = shortened(&cause.split_whitespace().collect::<Vec<_>>().join(" "));
    let cause = if cause.is_empty() { error.kind().to_string() } else { cause };
    let (code, hint) = match (error.kind(), answer) {
        (_, Some("NoSuchBucket" | "ContainerNotFound")) => ("no-bucket", Some("make it first".to_string())),
        (PermissionDenied, _) => ("permission-denied", Some(keys(url).to_string())),
        (ConfigInvalid, _) => ("failed", None),
        (NotFound, _) => ("not-found", None),
        (RateLimited, _) => ("rate-limited", Some(LATER.to_string())),
        (_, Some(answer)) if is_full(answer) => ("no-space", Some("free space there, or raise the quota".into())),
        _ if is_full(&cause) => ("no-space", Some("free space there, or raise the quota".into())),
        _ if message.contains("connection") || message.contains("timeout") => ("no-connection", Some(reach(url))),
        _ if error.is_persistent() || error.is_temporary() => ("unavailable", Some(LATER.to_string())),
        _ => ("failed", None),
    };
    Fault { cause, code, hint }
}

fn is_full(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["quota", "insufficientstorage", "no space", "storagefull", "disk full", "not enough space"]
        .iter()
        .any(|word| text.contains(word))
}

fn of_request(error: &reqwest::Error, url: &Url) -> Fault {
    if let Some(status) = error.status() {
        let reason = status.canonical_reason().unwrap_or("an error");
        let cause = format!("the server answers {} {reason}", status.as_u16());
        let (code, hint) = match status.as_u16() {
            401 | 403 => ("permission-denied", Some(keys(url).to_string())),
            404 => ("not-found", None),
            413 | 507 => ("no-space", Some("free space there, or raise the quota".into())),
            429 | 503 => ("rate-limited", Some(LATER.into())),
            500.. => ("unavailable", Some(LATER.into())),
            _ => ("failed", None),
        };
        return Fault { cause, code, hint };
    }
    let inner = innermost(error).unwrap_or_else(|| error.to_string());
    let cause = if error.is_timeout() { "no answer in time".to_string() } else { shortened(&inner) };
    Fault { cause, code: "no-connection", hint: Some(reach(url)) }
}

fn of_io(error: &io::Error, url: &Url) -> Fault {
    if matches!(error.kind(), io::ErrorKind::NotConnected | io::ErrorKind::TimedOut) {
        return Fault { cause: text::cause(error), code: "no-connection", hint: Some(reach(url)) };
    }
    let code = match error.kind() {
        io::ErrorKind::NotFound => "not-found",
        io::ErrorKind::PermissionDenied => "permission-denied",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "no-space",
        io::ErrorKind::ReadOnlyFilesystem => "read-only",
        _ => "failed",
    };
    Fault { cause: text::cause(error), code, hint: None }
}

/// Whether an error says nothing about a file of the store: its host does not answer, or refuses.
pub(super) fn is_of_host(error: &Error) -> bool {
    !matches!(error.code(), "not-found" | "failed" | "damage")
}

/// The cause alone of an error of [`explain`].
pub(super) fn cause_of(error: &Error) -> String {
    StdError::source(error).map_or_else(|| error.class(), ToString::to_string)
}

/// The beginning of a long text.
pub(super) fn shortened(line: &str) -> String {
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    }
}

/// The last cause in the chain.
fn innermost(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut last = error.source()?;
    while let Some(next) = last.source() {
        last = next;
    }
    Some(last.to_string())
}

/// The text in quotes behind a label.
fn quoted<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    let rest = text.split_once(label)?.1.strip_prefix('"')?;
    rest.find('"').map(|end| &rest[..end]).filter(|found| !found.is_empty())
}

fn reach(url: &Url) -> String {
    match url {
        Url::Sftp { host, .. } => format!("'{} true' must succeed without prompting", host.trial()),
        _ => "check the address and the network; the next run continues".to_string(),
    }
}

fn keys(url: &Url) -> &'static str {
    match url {
        Url::Local(_) | Url::Sftp { .. } => "check the permissions there",
        Url::Rest(_) => "check RESTIC_REST_USERNAME and RESTIC_REST_PASSWORD, and whether the server is append-only",
        Url::S3 { .. } => "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they may do in the bucket",
        Url::B2 { .. } => "check B2_ACCOUNT_ID and B2_ACCOUNT_KEY, and what they may do in the bucket",
        Url::Azure { .. } => "check AZURE_ACCOUNT_NAME and AZURE_ACCOUNT_KEY or AZURE_ACCOUNT_SAS",
    }
}

/// The store has no repository, or no longer.
pub(super) fn missing(url: &Url) -> Error {
    Error::failed(format!("open the store {url}"))
        .because(io::Error::other("there is none"))
        .hint("'pleach offsite init' makes one")
        .with_code("no-store")
}

/// The data in the store is damaged.
pub(super) fn damage(action: &str, url: &Url, cause: String) -> Error {
    Error::new(ErrorKind::Damage, format!("{action} {url}")).because(io::Error::other(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_says_becomes_one_line() {
        let error = RusticError::new(rustic_core::ErrorKind::Backend, "Writing `{path}` failed.\nPlease check.")
            .attach_context("path", "data/ab");
        assert_eq!(in_one_line(&error), "Writing `data/ab` failed. Please check");
    }

    #[test]
    fn a_finding_is_no_bug_report() {
        let error = RusticError::new(rustic_core::ErrorKind::Backend, "the store cannot be read");
        let finding = format!("Error reading file: {error}");
        let line = finding.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(without_kind(&line), "Error reading file: the store cannot be read");
    }

    #[test]
    fn the_answer_of_an_object_store_is_named() {
        let url = Url::S3 { endpoint: "https://h".into(), bucket: "b".into(), prefix: String::new() };
        let answer = r#"S3Error { code: "NoSuchBucket", message: "The bucket is missing", resource: "/b" }"#;
        let error = opendal::Error::new(opendal::ErrorKind::ConfigInvalid, answer);
        let error = RusticError::with_source(rustic_core::ErrorKind::Backend, "Listing failed.", error);
        let error = explain("open the store", &url, &error);
        assert_eq!(error.code(), "no-bucket");
        let expected = "cannot open the store s3:https://h/b: NoSuchBucket: The bucket is missing (make it first)";
        assert_eq!(error.to_string(), expected);
    }
}
