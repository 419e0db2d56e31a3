//! The differences between two snapshots: a line each, sums for each top directory, or objects for scripts.

use super::Output;
use super::json::{FromField, PathField};
use super::summary::listed;
use super::table::{Align, Cell, Table};
use super::terminal::Style;
use crate::monitor::Change;
use crate::snapshot::diff::{Difference, Stats};
use crate::util::text::{self, count, size};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The most tops that have sums of their own.
const TOPS: usize = 100_000;

/// All letters, in the order of their columns.
const LETTERS: [Change; 8] = [
    Change::Added,
    Change::Removed,
    Change::Content,
    Change::Metadata,
    Change::Renamed,
    Change::Type,
    Change::Rotten,
    Change::Unreadable,
];

#[derive(Serialize)]
struct ChangeLine<'a> {
    r#type: &'static str,
    change: char,
    #[serde(flatten)]
    path: PathField<'a>,
    #[serde(flatten)]
    from: Option<FromField<'a>>,
}

#[derive(Serialize)]
struct StatLine<'a> {
    r#type: &'static str,
    /// Absent in the sum of the tops that have none of their own.
    #[serde(flatten)]
    path: Option<PathField<'a>>,
    #[serde(flatten)]
    counts: Counts,
    old_bytes: u64,
    new_bytes: u64,
}

#[derive(Serialize)]
struct Counts {
    added: u64,
    removed: u64,
    content: u64,
    metadata: u64,
    kind: u64,
    renamed: u64,
    rotten: u64,
    unreadable: u64,
}

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    command: &'static str,
    old: &'a str,
    new: &'a str,
    #[serde(flatten)]
    counts: Counts,
    old_incomplete: bool,
    new_incomplete: bool,
    read_bytes: u64,
    errors: u64,
    seconds: f64,
}

/// Shows differences as they come.
pub(crate) struct Listing<'a> {
    output: &'a Output,
    /// The sums, if they are wanted instead of lines.
    sums: Option<Sums>,
}

#[derive(Default)]
struct Sums {
    tops: HashMap<PathBuf, Sum>,
    others: Sum,
}

/// The sums of one top.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    counts: [u64; LETTERS.len()],
    old_bytes: u64,
    new_bytes: u64,
}

impl<'a> Listing<'a> {
    /// A listing; of sums only, if `stat`.
    pub(crate) fn new(output: &'a Output, stat: bool) -> Self {
        Listing { output, sums: stat.then(Sums::default) }
    }

    /// Shows or adds a difference.
    pub(crate) fn add(&mut self, difference: &Difference<'_>) {
        match &mut self.sums {
            Some(sums) => sums.add(difference),
            None => self.line(difference),
        }
    }

    fn line(&self, difference: &Difference<'_>) {
        let Difference { change, path, from, .. } = *difference;
        if self.output.is_json() {
            let (path, from) = (PathField::new(path), from.map(FromField::new));
            return self.output.json(&ChangeLine { r#type: "change", change: change.letter(), path, from });
        }
        let path = match (change, from) {
            (Change::Renamed, Some(from)) => format!("{} -> {}", text::path(from), text::path(path)),
            _ => text::path(path),
        };
        let letter = change.letter().to_string();
        self.output.line(&format!("{} {path}", style(change).paint(&letter, self.output.colours())));
    }

    /// Ends the listing.
    pub(crate) fn finish(self, stats: &Stats) {
        if let Some(sums) = &self.sums {
            sums.show(self.output);
        }
        if self.output.is_json() {
            let Stats { old, new, old_incomplete, new_incomplete, read_bytes, errors, seconds, .. } = stats;
            self.output.json(&Summary {
                r#type: "summary",
                command: "diff",
                old,
                new,
                counts: of_stats(stats),
                old_incomplete: *old_incomplete,
                new_incomplete: *new_incomplete,
                read_bytes: *read_bytes,
                errors: *errors,
                seconds: *seconds,
            });
        } else {
            self.output.info(&sentence(stats));
        }
    }
}

fn sentence(stats: &Stats) -> String {
    let parts = listed([
        (stats.added, "added"),
        (stats.removed, "removed"),
        (stats.content, "with other content"),
        (stats.metadata, "with other metadata"),
        (stats.renamed, "renamed"),
        (stats.kind, "of another type"),
        (stats.rotten, "damaged in one of them"),
        (stats.unreadable, "unreadable"),
    ]);
    let names = format!("{} and {}", text::path(stats.old.as_ref()), text::path(stats.new.as_ref()));
    match (&parts[..], stats.errors) {
        ("", 0) => format!("no differences between {names}"),
        ("", _) => format!("no differences between the readable parts of {names}"),
        (parts, _) => format!("{names} differ: {parts}"),
    }
}

fn of_stats(stats: &Stats) -> Counts {
    let Stats { added, removed, content, metadata, kind, renamed, rotten, unreadable, .. } = *stats;
    Counts { added, removed, content, metadata, kind, renamed, rotten, unreadable }
}

fn style(change: Change) -> Style {
    match change {
        Change::Added => Style::Green,
        Change::Removed | Change::Rotten => Style::Red,
        Change::Content | Change::Type => Style::Yellow,
        Change::Renamed => Style::Bold,
        Change::Metadata | Change::Unreadable => Style::Dim,
    }
}

impl Sums {
    fn add(&mut self, difference: &Difference<'_>) {
        let has_room = self.tops.len() < TOPS || self.tops.contains_key(difference.top);
        let sum = match has_room {
            true => self.tops.entry(difference.top.to_path_buf()).or_default(),
            false => &mut self.others,
        };
        for (change, number) in LETTERS.iter().zip(&mut sum.counts) {
            *number += u64::from(*change == difference.change);
        }
        if !matches!(difference.change, Change::Metadata | Change::Renamed | Change::Unreadable) {
            sum.old_bytes += difference.old.map_or(0, |facts| facts.size);
            sum.new_bytes += difference.new.map_or(0, |facts| facts.size);
        }
    }

    /// Shows the sums, the largest first.
    fn show(&self, output: &Output) {
        let mut rows: Vec<(Option<&Path>, Sum)> =
            self.tops.iter().map(|(path, sum)| (Some(path.as_path()), *sum)).collect();
        rows.sort_by_key(|(path, sum)| (Reverse(sum.old_bytes.saturating_add(sum.new_bytes)), *path));
        if self.others.counts.iter().sum::<u64>() > 0 {
            rows.push((None, self.others));
        }
        if output.is_json() {
            for (path, sum) in rows {
                output.json(&sum.object(path));
            }
        } else if !rows.is_empty() {
            table(output, &rows);
        }
    }
}

fn table(output: &Output, rows: &[(Option<&Path>, Sum)]) {
    let mut total = Sum::default();
    rows.iter().for_each(|(_, sum)| total.add(sum));
    // Columns without a number are omitted.
    let shown: Vec<usize> = (0..LETTERS.len()).filter(|column| total.counts[*column] > 0).collect();
    let letters: Vec<String> = LETTERS.iter().map(|change| change.letter().to_string()).collect();
    let mut columns = vec![("before", Align::Right), ("after", Align::Right)];
    columns.extend(shown.iter().map(|column| (letters[*column].as_str(), Align::Right)));
    columns.push(("path", Align::Left));
    let mut table = Table::new(output, &columns);
    let row = |sum: &Sum, name: &str| {
        let mut cells: Vec<Cell> = vec![size(sum.old_bytes).into(), size(sum.new_bytes).into()];
        cells.extend(shown.iter().map(|column| match sum.counts[*column] {
            0 => Cell::from(""),
            number => count(number).into(),
        }));
        cells.push(name.into());
        cells
    };
    for (path, sum) in rows {
        table.row(row(sum, &path.map_or("(others)".to_string(), text::path)));
    }
    if rows.len() > 1 {
        table.row(row(&total, "(all)"));
    }
    table.finish();
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, more)| *sum += more);
        self.old_bytes = self.old_bytes.saturating_add(other.old_bytes);
        self.new_bytes = self.new_bytes.saturating_add(other.new_bytes);
    }

    fn object<'a>(&self, path: Option<&'a Path>) -> StatLine<'a> {
        let [added, removed, content, metadata, renamed, kind, rotten, unreadable] = self.counts;
        let counts = Counts { added, removed, content, metadata, kind, renamed, rotten, unreadable };
        let Sum { old_bytes, new_bytes, .. } = *self;
        StatLine { r#type: "stat", path: path.map(PathField::new), counts, old_bytes, new_bytes }
    }
}
