//! The snapshots of a repository: a table for people, objects for scripts.

use super::Output;
use super::json::PathField;
use super::table::{Align, Cell, Table};
use super::terminal::Style;
use pleach::snapshot::list::{Row, Stats};
use pleach::text::{self, count, counted, size};
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

#[derive(Serialize)]
struct SnapshotLine<'a> {
    r#type: &'static str,
    name: &'a str,
    created: String,
    tags: &'a [String],
    host: &'a str,
    sources: Vec<PathField<'a>>,
    files: u64,
    dirs: u64,
    symlinks: u64,
    others: u64,
    bytes: u64,
    written_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclusive_bytes: Option<u64>,
    errors: u64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    snapshots: u64,
    errors: u64,
    seconds: f64,
}

/// Shows the list.
pub(crate) fn show(output: &Output, stats: &Stats, repo: &Path) {
    if output.is_json() {
        for row in &stats.rows {
            output.json(&object(row));
        }
        let Stats { rows, errors, seconds } = stats;
        let snapshots = rows.len() as u64;
        output.json(&Summary { r#type: "summary", command: "list", snapshots, errors: *errors, seconds: *seconds });
    } else if stats.rows.is_empty() {
        output.notice(&format!("no snapshots in {}", text::path(repo)));
    } else {
        table(output, &stats.rows);
        if !output.is_quiet() {
            output.line(&counted(stats.rows.len() as u64, "snapshot"));
        }
    }
}

fn object(row: &Row) -> SnapshotLine<'_> {
    let (header, totals) = (&row.info.header, &row.info.totals);
    SnapshotLine {
        r#type: "snapshot",
        name: &row.info.name,
        created: text::rfc3339(header.created.seconds, header.created.nanos),
        tags: &header.tags,
        host: &header.host,
        sources: sources(row).map(PathField::new).collect(),
        files: totals.files,
        dirs: totals.dirs,
        symlinks: totals.symlinks,
        others: totals.others,
        bytes: totals.bytes,
        written_bytes: totals.written_bytes,
        exclusive_bytes: row.exclusive_bytes,
        errors: totals.errors,
    }
}

/// Columns that would be empty are left out.
fn table(output: &Output, rows: &[Row]) {
    let has_alone = rows.iter().any(|row| row.exclusive_bytes.is_some());
    let has_errors = rows.iter().any(|row| row.info.totals.errors > 0);
    let has_tags = rows.iter().any(|row| !row.info.header.tags.is_empty());
    let mut columns = vec![
        ("snapshot", Align::Left),
        ("taken (UTC)", Align::Left),
        ("files", Align::Right),
        ("size", Align::Right),
        ("written", Align::Right),
    ];
    columns.extend(has_alone.then_some(("alone", Align::Right)));
    columns.extend(has_errors.then_some(("errors", Align::Right)));
    columns.extend(has_tags.then_some(("tags", Align::Left)));
    columns.extend(output.is_verbose().then_some(("sources", Align::Left)));
    let mut table = Table::new(output, &columns);
    for row in rows {
        let (header, totals) = (&row.info.header, &row.info.totals);
        let mut cells: Vec<Cell> = vec![
            (&row.info.name).into(),
            minute(&text::rfc3339(header.created.seconds, 0)).into(),
            count(totals.files).into(),
            size(totals.bytes).into(),
            size(totals.written_bytes).into(),
        ];
        cells.extend(has_alone.then(|| Cell::from(row.exclusive_bytes.map_or("?".to_string(), size))));
        cells.extend(has_errors.then(|| errors(totals.errors)));
        cells.extend(has_tags.then(|| Cell::from(header.tags.join(", "))));
        let sources = || sources(row).map(text::path).collect::<Vec<_>>().join(" ");
        cells.extend(output.is_verbose().then(|| Cell::from(sources())));
        table.row(cells);
    }
    table.finish();
}

/// `2026-11-20 02:00` of `2026-11-20T02:00:00Z`.
fn minute(rfc3339: &str) -> String {
    match rfc3339.get(..16) {
        Some(minute) if !rfc3339.starts_with('@') => minute.replace('T', " "),
        _ => rfc3339.to_string(),
    }
}

fn errors(number: u64) -> Cell {
    if number == 0 { Cell::from("") } else { Cell::styled(&count(number), Style::Red) }
}

fn sources(row: &Row) -> impl Iterator<Item = &Path> {
    row.info.header.sources.iter().map(|source| Path::new(OsStr::from_bytes(source)))
}
