//! The lines of `--json`, by type. Errors and warnings may precede any of them.

use super::Run;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A line that is read into a struct.
pub(crate) trait Line: DeserializeOwned {
    /// Its `"type"`.
    const TYPE: &'static str;
}

/// A failed entry or command.
#[derive(Debug, Deserialize)]
pub(crate) struct Problem {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) path: Option<String>,
}

impl Line for Problem {
    const TYPE: &'static str = "error";
}

/// A warning, which is not a failure.
#[derive(Debug, Deserialize)]
pub(crate) struct Warning {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) path: Option<String>,
}

impl Line for Warning {
    const TYPE: &'static str = "warning";
}

/// An entry of the plan.
#[derive(Debug, Deserialize)]
pub(crate) struct Change {
    pub(crate) change: char,
    pub(crate) path: Option<String>,
    pub(crate) path_base64: Option<String>,
}

impl Line for Change {
    const TYPE: &'static str = "change";
}

/// A snapshot of `list`.
#[derive(Debug, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    pub(crate) added_data_bytes: Option<u64>,
    pub(crate) added_metadata_bytes: Option<u64>,
    pub(crate) exclusive_bytes: Option<u64>,
}

impl Line for Snapshot {
    const TYPE: &'static str = "snapshot";
}

impl Run {
    /// The lines of `--json` of one type.
    #[track_caller]
    pub(crate) fn lines<L: Line>(&self) -> Vec<L> {
        let read = |line: Value| serde_json::from_value(line.clone()).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.lines_of_type(L::TYPE).into_iter().map(read).collect()
    }

    /// The unparsed lines of `--json` of one type.
    #[track_caller]
    pub(crate) fn lines_of_type(&self, name: &str) -> Vec<Value> {
        self.json().into_iter().filter(|line| line["type"] == name).collect()
    }
}
