//! The section `[metrics]`: the text file for Prometheus' node exporter.

use super::fields::{Fields, Problem, Read, Value};
use super::show::{Shown, unset};
use super::values;
use std::path::PathBuf;

/// The section `[metrics]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metrics {
    /// Where the results of the last run are written.
    pub(crate) file: Option<PathBuf>,
}

impl Metrics {
    pub(super) fn read(fields: &mut Fields<'_>) -> Metrics {
        Metrics { file: fields.optional("file", file) }
    }

    pub(super) fn show(&self) -> Shown {
        vec![("file", self.file.clone().map_or_else(unset, Into::into))]
    }
}

/// The node exporter reads only files with this ending.
fn file(value: &Value<'_>) -> Read<PathBuf> {
    let path = values::absolute(value)?;
    if path.extension().is_some_and(|extension| extension == "prom") {
        return Ok(path);
    }
    let message = "expected a name that ends in .prom, because the node exporter reads no other file".to_string();
    Err(vec![Problem { at: value.span(), message }])
}
