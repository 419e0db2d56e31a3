//! The pieces that JSON objects of several commands have in common. Each command's own objects stand in its own file.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path as a field to flatten: `"path"` in UTF-8, or `"path_base64"` where its bytes are not UTF-8.
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
    pub(crate) fn new(change: pleach::monitor::Change, path: &'a Path) -> Self {
        ChangeLine { r#type: "change", change: change.letter(), path: PathField::new(path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pleach::monitor::Change;
    use std::ffi::OsStr;

    #[test]
    fn a_path_is_text_or_base64() {
        let plain = serde_json::to_string(&ChangeLine::new(Change::Added, Path::new("a\"\n"))).unwrap();
        assert_eq!(plain, r#"{"type":"change","change":"+","path":"a\"\n"}"#);
        let odd = Path::new(OsStr::from_bytes(b"\xff"));
        let odd = serde_json::to_string(&ChangeLine::new(Change::Content, odd)).unwrap();
        assert_eq!(odd, r#"{"type":"change","change":"M","path_base64":"/w=="}"#);
    }
}
