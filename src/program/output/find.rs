//! The paths that were found: a line each, or objects for scripts.

use super::Output;
use super::json::PathField;
use super::table::{Align, Cell, Table};
use super::terminal::Style;
use crate::snapshot::find::{Found, Stats};
use crate::util::text::{self, count, counted};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct FoundLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    directory: bool,
    first: &'a str,
    last: &'a str,
    snapshots: u64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    paths: u64,
    snapshots: u64,
    errors: u64,
    seconds: f64,
}

/// Shows paths as they come.
pub(crate) struct Listing<'a> {
    output: &'a Output,
    table: Option<Table<'a>>,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(output: &'a Output) -> Self {
        Listing { output, table: None }
    }

    /// Shows a path.
    pub(crate) fn add(&mut self, found: &Found<'_>) {
        let Found { path, is_directory, first, last, snapshots, .. } = *found;
        if self.output.is_json() {
            let path = PathField::new(path);
            let line = FoundLine { r#type: "path", path, directory: is_directory, first, last, snapshots };
            return self.output.json(&line);
        }
        let table = self.table.get_or_insert_with(|| {
            let columns = [("first", Align::Left), ("last", Align::Left), ("in", Align::Right), ("path", Align::Left)];
            Table::new(self.output, &columns)
        });
        let last = if last == first { "" } else { last };
        let shown = if is_directory { text::path(&path.join("")) } else { text::path(path) };
        let name = |text: &str| Cell::name(text, Style::Plain);
        table.row(vec![name(first), name(last), count(snapshots).into(), Cell::path(&shown, Style::Plain)]);
    }

    /// Ends the listing.
    pub(crate) fn finish(self, stats: &Stats, pattern: &Path) {
        let Stats { paths, snapshots, errors, seconds, .. } = *stats;
        if let Some(table) = self.table {
            table.finish();
        }
        if self.output.is_json() {
            self.output.json(&Summary { r#type: "summary", command: "find", paths, snapshots, errors, seconds });
        } else {
            let snapshots = counted(snapshots, "snapshot");
            self.output.info(&match paths {
                0 => format!("nothing matches {} in {snapshots}", text::path(pattern)),
                _ => format!("{} in {snapshots}", counted(paths, "path")),
            });
        }
    }
}
