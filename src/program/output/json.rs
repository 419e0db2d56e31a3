//! Parts of JSON objects that several commands use. The objects of a single command are in that command's file.

use super::messages;
use crate::error::Error;
use crate::util::text;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path as a field to flatten: `"path"` in UTF-8, or `"path_base64"` if its bytes are not UTF-8.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(crate) enum PathField<'a> {
    Utf8 { path: &'a str },
    Bytes { path_base64: String },
}

impl<'a> PathField<'a> {
    /// The field for this path.
    pub(crate) fn new(path: &'a Path) -> Self {
        match path.to_str() {
            Some(path) => PathField::Utf8 { path },
            None => {
                let path_base64 = data_encoding::BASE64.encode(path.as_os_str().as_bytes());
                PathField::Bytes { path_base64 }
            }
        }
    }
}

/// Another path of the same object, like [`PathField`]: the old path of a renamed entry, or where something is from.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(crate) enum FromField<'a> {
    Utf8 { from: &'a str },
    Bytes { from_base64: String },
}

impl<'a> FromField<'a> {
    /// The field for this path.
    pub(crate) fn new(path: &'a Path) -> Self {
        match path.to_str() {
            Some(from) => FromField::Utf8 { from },
            None => FromField::Bytes { from_base64: data_encoding::BASE64.encode(path.as_os_str().as_bytes()) },
        }
    }
}

/// Writes one line of JSON that is harmless on a terminal. Beyond the control characters that JSON escapes anyway, it
/// escapes all other control characters, and code points that are invisible or reorder others. A program reads the same
/// text.
pub(crate) fn write_line(writer: &mut dyn io::Write, object: &impl serde::Serialize) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *writer, Harmless);
    object.serialize(&mut serializer)?;
    writer.write_all(b"\n")
}

struct Harmless;

impl serde_json::ser::Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| text::is_unprintable(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

/// A planned change of one entry.
#[derive(serde::Serialize)]
pub(crate) struct ChangeLine<'a> {
    r#type: &'static str,
    change: char,
    #[serde(flatten)]
    path: PathField<'a>,
}

impl<'a> ChangeLine<'a> {
    /// The object for this change.
    pub(crate) fn new(change: crate::monitor::Change, path: &'a Path) -> Self {
        ChangeLine { r#type: "change", change: change.letter(), path: PathField::new(path) }
    }
}

/// A warning or an error.
#[derive(serde::Serialize)]
pub(crate) struct MessageLine<'a> {
    r#type: &'static str,
    code: &'static str,
    #[serde(flatten)]
    path: Option<PathField<'a>>,
    message: String,
}

impl<'a> MessageLine<'a> {
    /// The object for the error of an entry, or of the command.
    pub(crate) fn of_error(error: &'a Error) -> Self {
        let path = error.path().map(PathField::new);
        MessageLine { r#type: "error", code: error.code(), path, message: messages::error(error) }
    }

    /// The object for an invalid command line.
    pub(crate) fn usage(message: String) -> Self {
        MessageLine { r#type: "error", code: "usage", path: None, message }
    }

    /// The object for a requirement that was not met.
    pub(crate) fn shortfall(code: &'static str, sentence: &str) -> Self {
        MessageLine { r#type: "error", code, path: None, message: sentence.to_string() }
    }

    /// The object for something that is not an error.
    pub(crate) fn warning(code: &'static str, path: Option<&'a Path>, sentence: &str) -> Self {
        MessageLine { r#type: "warning", code, path: path.map(PathField::new), message: sentence.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Change;
    use std::ffi::OsStr;

    #[test]
    fn a_line_carries_nothing_that_a_terminal_acts_upon() {
        let text = "a\u{9b}31m\u{7f}\u{202e}\u{e0041}ä\n\x1b[0m";
        let mut line = Vec::new();
        write_line(&mut line, &text).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert_eq!(line, "\"a\\u009b31m\\u007f\\u202e\\udb40\\udc41ä\\n\\u001b[0m\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }

    #[test]
    fn an_error_has_its_code_its_path_and_a_message() {
        let error = Error::failed("do it").at(OsStr::from_bytes(b"\xff")).with_code("a-code");
        let json = serde_json::to_string(&MessageLine::of_error(&error)).unwrap();
        let message = r#""message":"cannot do it '\\xff'"}"#;
        assert_eq!(json, format!(r#"{{"type":"error","code":"a-code","path_base64":"/w==",{message}"#));
        let json = serde_json::to_string(&MessageLine::warning("no-locks", None, "so")).unwrap();
        assert_eq!(json, r#"{"type":"warning","code":"no-locks","message":"so"}"#);
    }

    #[test]
    fn a_path_is_text_or_base64() {
        let plain = serde_json::to_string(&ChangeLine::new(Change::Added, Path::new("a\"\n"))).unwrap();
        assert_eq!(plain, r#"{"type":"change","change":"+","path":"a\"\n"}"#);
        let odd = Path::new(OsStr::from_bytes(b"\xff"));
        let odd = serde_json::to_string(&ChangeLine::new(Change::Content, odd)).unwrap();
        assert_eq!(odd, r#"{"type":"change","change":"M","path_base64":"/w=="}"#);
    }
}
