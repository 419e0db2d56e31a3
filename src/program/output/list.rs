//! The snapshots of a repository: a table for people, objects for scripts.

use super::Output;
use super::bound;
use super::json::PathField;
use super::table::{Align, Cell, MINIMAL_NAME, Table};
use super::terminal::{Style, harmless, stdout_columns};
use crate::extents::bound::Bound;
use crate::snapshot::list::{Row, Stats};
use crate::snapshot::repository::Added;
use crate::util::text::{self, count, counted, size};
use serde::Serialize;
use std::path::Path;
use unicode_width::UnicodeWidthStr as _;

#[derive(Serialize)]
struct SnapshotLine<'a> {
    r#type: &'static str,
    name: &'a str,
    created: String,
    tags: &'a [String],
    pinned: bool,
    host: &'a str,
    sources: Vec<PathField<'a>>,
    files: u64,
    dirs: u64,
    symlinks: u64,
    others: u64,
    bytes: u64,
    written_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    added_data_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    added_metadata_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclusive_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_here_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_here_is: Option<&'static str>,
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
        output.info(&format!("no snapshots in {}", text::path(repo)));
    } else {
        table(output, &stats.rows);
        if !output.is_quiet() {
            output.line(&counted(stats.rows.len() as u64, "snapshot"));
        }
    }
}

fn object(row: &Row) -> SnapshotLine<'_> {
    let totals = &row.totals;
    SnapshotLine {
        r#type: "snapshot",
        name: &row.name,
        created: text::rfc3339(row.created.seconds, row.created.nanos),
        tags: &row.tags,
        pinned: row.pinned,
        host: &row.host,
        sources: row.sources.iter().map(|source| PathField::new(source)).collect(),
        files: totals.files,
        dirs: totals.dirs,
        symlinks: totals.symlinks,
        others: totals.others,
        bytes: totals.bytes,
        written_bytes: totals.written_bytes,
        added_data_bytes: row.added.map(|added| added.data_bytes),
        added_metadata_bytes: row.added.map(|added| added.metadata_bytes),
        exclusive_bytes: row.exclusive_bytes,
        only_here_bytes: row.only_here_bytes,
        only_here_is: row.only_here_bytes.map(|_| bound::name(only_here_is(row))),
        errors: totals.errors,
    }
}

/// A column of the list.
struct Column {
    title: &'static str,
    align: Align,
    cells: Vec<Cell>,
    /// The order in which columns move below their row if the table is too wide; `None`: the column never moves.
    moves: Option<u8>,
}

impl Column {
    fn width(&self) -> usize {
        self.cells.iter().map(Cell::width).fold(self.title.len(), usize::max)
    }
}

/// Prints the snapshots in the columns that fit, and the other columns below each row. Omits empty columns, and the
/// sources if all snapshots have the same.
fn table(output: &Output, rows: &[Row]) {
    let columns = stdout_columns().unwrap_or(80);
    let has_sources = output.is_verbose() || rows.iter().any(|row| row.sources != rows[0].sources);
    let (below, shown) = fitting(all_columns(rows, has_sources), columns);
    let others = shown.iter().skip(1).map(|column| column.width() + GAP).sum::<usize>();
    let room = columns.saturating_sub(others).max(MINIMAL_NAME);
    let mut table = Table::new(output, &shown.iter().map(|column| (column.title, column.align)).collect::<Vec<_>>());
    for (number, row) in rows.iter().enumerate() {
        let mut cells: Vec<Cell> = shown.iter().map(|column| column.cells[number].clone()).collect();
        // A long name gets a line of its own.
        if let Some(name) = cells.first_mut().filter(|name| name.width() > room) {
            table.text(std::mem::take(name).painted(output.colours()));
        }
        table.row(cells);
        let details: Vec<_> = below.iter().map(|column| details(column, row, number)).collect();
        filled(&details, columns).into_iter().for_each(|line| table.text(line));
    }
    table.finish();
}

/// The gap between two columns.
const GAP: usize = 2;
/// The indentation of the lines below a row.
const INDENT: usize = 4;

/// Separates the columns that stay from those that move below their row.
fn fitting(mut shown: Vec<Column>, width: usize) -> (Vec<Column>, Vec<Column>) {
    let mut below = Vec::new();
    let is_too_wide = |shown: &[Column]| {
        let name = shown.first().map_or(0, |column| column.width().min(MINIMAL_NAME));
        name + shown.iter().skip(1).map(|column| GAP + column.width()).sum::<usize>() > width
    };
    while is_too_wide(&shown) {
        let next = shown.iter().enumerate().filter_map(|(at, column)| Some((column.moves?, at))).min();
        let Some((_, at)) = next else { break };
        below.insert(0, shown.remove(at));
    }
    (below, shown)
}

/// The text below a row for a column that moved there, in pieces that are not broken: `tags: monday,` and `by-hand`.
fn details(column: &Column, row: &Row, number: usize) -> Vec<String> {
    let cell = &column.cells[number];
    if cell.width() == 0 || column.title == TAKEN && is_named_by_time(row) {
        return Vec::new();
    }
    let mut pieces = match column.title {
        TAGS => row.tags.iter().map(|tag| harmless(tag).into_owned() + ",").collect(),
        SOURCES => row.sources.iter().map(|source| text::path(source)).collect(),
        _ => vec![cell.text().to_string()],
    };
    if let (TAGS, Some(last)) = (column.title, pieces.last_mut()) {
        last.pop();
    }
    if let Some(first) = pieces.first_mut() {
        *first = format!("{}: {first}", column.title);
    }
    pieces
}

/// Indented lines with these pieces of each column. A piece that is longer than a line has its own line.
fn filled(details: &[Vec<String>], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (number, piece) in details.iter().flat_map(|pieces| pieces.iter().enumerate()) {
        let gap = if number == 0 { "  " } else { " " };
        match lines.last_mut() {
            Some(line) if line.width() + gap.len() + piece.width() <= columns => *line += &format!("{gap}{piece}"),
            _ => lines.push(format!("{:INDENT$}{piece}", "")),
        }
    }
    lines
}

const TAKEN: &str = "taken (UTC)";
const TAGS: &str = "tags";
const SOURCES: &str = "sources";

fn all_columns(rows: &[Row], has_sources: bool) -> Vec<Column> {
    let column = |title, align, moves, cell: &dyn Fn(&Row) -> Cell| Column {
        title,
        align,
        cells: rows.iter().map(cell).collect(),
        moves,
    };
    let has = |is: &dyn Fn(&Row) -> bool| rows.iter().any(is);
    // Moving the time loses nothing if the names contain it.
    let taken_moves = if has(&|row| !is_named_by_time(row)) { 3 } else { 0 };
    let mut columns = vec![
        column("snapshot", Align::Left, None, &|row| (&row.name).into()),
        column(TAKEN, Align::Left, Some(taken_moves), &|row| minute(&created(row)).into()),
        column("files", Align::Right, None, &|row| count(row.totals.files).into()),
        column("size", Align::Right, None, &|row| size(row.totals.bytes).into()),
        column("added data", Align::Right, None, &|row| added(row, |added| added.data_bytes)),
        column("metadata", Align::Right, None, &|row| added(row, |added| added.metadata_bytes)),
    ];
    if has(&|row| row.exclusive_bytes.is_some()) {
        let alone = |row: &Row| Cell::from(row.exclusive_bytes.map_or("?".to_string(), size));
        columns.push(column("alone", Align::Right, None, &alone));
    }
    if has(&|row| row.only_here_bytes.is_some()) {
        let figure = |bytes: u64, row: &Row| match only_here_is(row) {
            Bound::AtMost => format!("≤ {}", size(bytes)),
            _ => size(bytes),
        };
        let only_here = |row: &Row| Cell::from(row.only_here_bytes.map_or("-".to_string(), |bytes| figure(bytes, row)));
        columns.push(column("only here", Align::Right, Some(6), &only_here));
    }
    if has(&|row| row.totals.errors > 0) {
        columns.push(column("errors", Align::Right, Some(4), &|row| errors(row.totals.errors)));
    }
    if has(&|row| !row.tags.is_empty()) {
        columns.push(column(TAGS, Align::Left, Some(2), &|row| row.tags.join(", ").into()));
    }
    if has(&|row| row.pinned) {
        columns.push(column("pinned", Align::Left, Some(5), &|row| if row.pinned { "yes" } else { "" }.into()));
    }
    if has_sources {
        let shown =
            |row: &Row| Cell::from(row.sources.iter().map(|source| text::path(source)).collect::<Vec<_>>().join(" "));
        columns.push(column(SOURCES, Align::Left, Some(1), &shown));
    }
    columns
}

/// How exact the bytes are that only this snapshot holds. Its files may have changed since they were mapped.
fn only_here_is(row: &Row) -> Bound {
    if row.has_all_maps { Bound::About } else { Bound::AtMost }
}

fn created(row: &Row) -> String {
    text::rfc3339(row.created.seconds, 0)
}

/// Whether a snapshot has the name that pleach derives from its time: `2026-11-20T020000Z`, perhaps with a number.
fn is_named_by_time(row: &Row) -> bool {
    row.name.starts_with(&created(row).replace(':', ""))
}

/// Shortens `2026-11-20T02:00:00Z` to `2026-11-20 02:00`.
fn minute(rfc3339: &str) -> String {
    match rfc3339.get(..16) {
        Some(minute) if !rfc3339.starts_with('@') => minute.replace('T', " "),
        _ => rfc3339.to_string(),
    }
}

/// The space that a snapshot added on the disk; a hyphen if unknown.
fn added(row: &Row, part: impl Fn(&Added) -> u64) -> Cell {
    Cell::from(row.added.as_ref().map_or("-".to_string(), |added| size(part(added))))
}

fn errors(number: u64) -> Cell {
    if number == 0 { Cell::from("") } else { Cell::styled(&count(number), Style::Red) }
}
