//! The values of a resolved profile, with all defaults: as TOML, and as a JSON object.

use crate::util::text;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The keys of a section with their values.
pub(super) type Shown = Vec<(&'static str, Shows)>;

/// A value.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Shows {
    Unset(()),
    Text(String),
    Flag(bool),
    Integer(i64),
    Number(f64),
    List(Vec<Shows>),
}

/// The value of a key that has no default.
pub(super) fn unset() -> Shows {
    Shows::Unset(())
}

impl From<String> for Shows {
    fn from(text: String) -> Shows {
        Shows::Text(text)
    }
}

impl From<&str> for Shows {
    fn from(text: &str) -> Shows {
        Shows::Text(text.to_string())
    }
}

impl From<PathBuf> for Shows {
    fn from(path: PathBuf) -> Shows {
        // Paths in a profile are UTF-8, because TOML is.
        Shows::Text(path.to_string_lossy().into_owned())
    }
}

impl From<bool> for Shows {
    fn from(flag: bool) -> Shows {
        Shows::Flag(flag)
    }
}

impl From<i64> for Shows {
    fn from(number: i64) -> Shows {
        Shows::Integer(number)
    }
}

impl From<f64> for Shows {
    fn from(number: f64) -> Shows {
        Shows::Number(number)
    }
}

impl<T: Into<Shows>> From<Vec<T>> for Shows {
    fn from(items: Vec<T>) -> Shows {
        Shows::List(items.into_iter().map(Into::into).collect())
    }
}

/// The profile as TOML. It has the same meaning as the profile itself.
pub(super) fn toml(path: &Path, top: &Shown, sections: &[(&'static str, Shown)]) -> String {
    let mut out = format!("# {}, with all defaults\n", text::path(path));
    top.iter().for_each(|(key, value)| line(&mut out, key, value));
    for (name, values) in sections {
        let _ = writeln!(out, "\n[{name}]");
        values.iter().for_each(|(key, value)| line(&mut out, key, value));
    }
    out
}

fn line(out: &mut String, key: &str, value: &Shows) {
    let _ = match written(value) {
        Some(value) => writeln!(out, "{key} = {value}"),
        None => writeln!(out, "# {key} is not set"),
    };
}

fn written(value: &Shows) -> Option<String> {
    Some(match value {
        Shows::Unset(()) => return None,
        Shows::Text(text) => quoted(text),
        Shows::Flag(flag) => flag.to_string(),
        Shows::Integer(number) => number.to_string(),
        Shows::Number(number) => format!("{number:?}"),
        Shows::List(items) => format!("[{}]", items.iter().filter_map(written).collect::<Vec<_>>().join(", ")),
    })
}

/// A basic string of TOML, harmless on a terminal.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            c if text::is_unprintable(c) => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// The profile as an object: the sections are objects, and values that are not set are null.
pub(super) fn object(head: &[(&str, &str)], top: &Shown, sections: &[(&'static str, Shown)]) -> impl Serialize + use<> {
    let map = |values: &Shown| -> serde_json::Map<String, serde_json::Value> {
        values.iter().map(|(key, value)| (key.to_string(), serde_json::json!(value))).collect()
    };
    let mut object: serde_json::Map<_, _> =
        head.iter().map(|(key, value)| (key.to_string(), serde_json::json!(value))).collect();
    object.extend(map(top));
    object.extend(sections.iter().map(|(name, values)| (name.to_string(), map(values).into())));
    object
}
