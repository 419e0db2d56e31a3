//! The disk space that paths use: a table for people, objects for scripts.

use super::Output;
use super::bound;
use super::json::PathField;
use super::table::{Align, Cell, Table};
use super::terminal::{Style, harmless};
use crate::extents::bound::Bound;
use crate::snapshot::du as snapshots;
use crate::usage::{Freed, Row, Stats, Totals};
use crate::util::text::{self, size};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct PathLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    files: u64,
    apparent_bytes: u64,
    disk_bytes: u64,
    /// How exact `disk_bytes`, `exclusive_bytes` and `shared_bytes` are.
    disk_is: &'static str,
    exclusive_bytes: u64,
    shared_bytes: u64,
    inline_bytes: u64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    paths: u64,
    set_files: u64,
    set_apparent_bytes: u64,
    set_disk_bytes: u64,
    set_disk_is: &'static str,
    set_exclusive_bytes: u64,
    set_shared_bytes: u64,
    set_inline_bytes: u64,
    /// How many references files hold to extents.
    set_references: u64,
    #[serde(flatten)]
    freed: SetFreed,
    errors: u64,
    seconds: f64,
}

/// What deleting the whole set would free.
#[derive(Serialize)]
struct SetFreed {
    set_freed_bytes: u64,
    set_freed_is: &'static str,
    /// The part of `set_freed_bytes` that inodes take.
    set_freed_inode_bytes: u64,
    /// The part of `set_freed_bytes` that Btrfs's own trees take.
    set_freed_metadata_bytes: u64,
    /// The bytes that may be freed in addition to `set_freed_bytes`.
    set_undecided_bytes: u64,
}

impl SetFreed {
    fn new(freed: &Freed) -> SetFreed {
        SetFreed {
            set_freed_bytes: freed.bytes,
            set_freed_is: bound::name(freed.bound),
            set_freed_inode_bytes: freed.inode_bytes,
            set_freed_metadata_bytes: freed.metadata_bytes,
            set_undecided_bytes: freed.undecided_bytes,
        }
    }
}

/// Prints the result.
pub(crate) fn show(output: &Output, stats: &Stats) {
    if output.is_json() {
        stats.rows.iter().for_each(|row| output.json(&object(row)));
        output.json(&summary(stats));
    } else if !stats.rows.is_empty() {
        table(output, stats);
        output.line(&freed(&stats.freed));
    }
}

fn object(row: &Row) -> PathLine<'_> {
    let Row { path, totals } = row;
    PathLine {
        r#type: "path",
        path: PathField::new(path),
        files: totals.files,
        apparent_bytes: totals.apparent_bytes,
        disk_bytes: totals.disk_bytes,
        disk_is: bound::name(bound_of(totals)),
        exclusive_bytes: totals.exclusive_bytes,
        shared_bytes: totals.shared_bytes,
        inline_bytes: totals.inline_bytes,
    }
}

fn summary(stats: &Stats) -> Summary {
    let Stats { rows, set, freed, errors, seconds } = stats;
    Summary {
        r#type: "summary",
        command: "du",
        paths: rows.len() as u64,
        set_files: set.files,
        set_apparent_bytes: set.apparent_bytes,
        set_disk_bytes: set.disk_bytes,
        set_disk_is: bound::name(bound_of(set)),
        set_exclusive_bytes: set.exclusive_bytes,
        set_shared_bytes: set.shared_bytes,
        set_inline_bytes: set.inline_bytes,
        set_references: set.references,
        freed: SetFreed::new(freed),
        errors: *errors,
        seconds: *seconds,
    }
}

fn bound_of(totals: &Totals) -> Bound {
    if totals.is_at_most { Bound::AtMost } else { Bound::Exact }
}

fn table(output: &Output, stats: &Stats) {
    let columns = [
        ("apparent", Align::Right),
        ("on disk", Align::Right),
        ("exclusive", Align::Right),
        ("shared", Align::Right),
        ("path", Align::Left),
    ];
    let mut table = Table::new(output, &columns);
    for row in &stats.rows {
        table.row(cells(&row.totals, Cell::from(text::path(&row.path))));
    }
    if stats.rows.len() > 1 {
        table.row(cells(&stats.set, Cell::styled("all of them together", Style::Bold)));
    }
    table.finish();
}

fn cells(totals: &Totals, name: Cell) -> Vec<Cell> {
    let mark = if totals.is_at_most { "≤ " } else { "" };
    let figure = |bytes| Cell::from(format!("{mark}{}", size(bytes)));
    vec![
        Cell::from(size(totals.apparent_bytes)),
        figure(totals.disk_bytes),
        figure(totals.exclusive_bytes),
        figure(totals.shared_bytes),
        name,
    ]
}

#[derive(Serialize)]
struct SnapshotLine<'a> {
    r#type: &'static str,
    name: &'a str,
    freed_bytes: u64,
    freed_is: &'static str,
    freed_inode_bytes: u64,
    freed_metadata_bytes: u64,
    undecided_bytes: u64,
}

#[derive(Serialize)]
struct SummaryOfSnapshots {
    r#type: &'static str,
    command: &'static str,
    snapshots: u64,
    #[serde(flatten)]
    freed: SetFreed,
    /// Whether the figures come from maps that are kept in the repository.
    from_maps: bool,
    /// How many maps were made and kept.
    new_maps: u64,
    /// How many files were mapped for maps, or to check them.
    mapped_files: u64,
    errors: u64,
    seconds: f64,
}

/// Prints what removing snapshots would free.
pub(crate) fn show_snapshots(output: &Output, stats: &snapshots::Stats, repo: &Path) {
    let snapshots::Stats { rows, set, from_maps, new_maps, mapped_files, errors, seconds, .. } = stats;
    if output.is_json() {
        for snapshots::Row { name, freed, .. } in rows {
            output.json(&SnapshotLine {
                r#type: "snapshot",
                name,
                freed_bytes: freed.bytes,
                freed_is: bound::name(freed.bound),
                freed_inode_bytes: freed.inode_bytes,
                freed_metadata_bytes: freed.metadata_bytes,
                undecided_bytes: freed.undecided_bytes,
            });
        }
        output.json(&SummaryOfSnapshots {
            r#type: "summary",
            command: "du",
            snapshots: rows.len() as u64,
            freed: SetFreed::new(set),
            from_maps: *from_maps,
            new_maps: *new_maps,
            mapped_files: *mapped_files,
            errors: *errors,
            seconds: *seconds,
        });
    } else if rows.is_empty() {
        output.info(&format!("no snapshots in {}", text::path(repo)));
    } else {
        let mut table = Table::new(output, &[("frees alone", Align::Right), ("snapshot", Align::Left)]);
        for snapshots::Row { name, freed, .. } in rows {
            let figure = format!("{}{}", bound::words(freed.bound), size(freed.bytes));
            table.row(vec![Cell::from(figure), Cell::from(&harmless(name))]);
        }
        table.finish();
        output.line(&freed(set));
    }
}

/// `deleting frees 12.2 MiB`, and how exact that is.
fn freed(freed: &Freed) -> String {
    let bound = bound::words(freed.bound);
    let mut line = format!("deleting frees {bound}{}", size(freed.bytes));
    if freed.undecided_bytes > 0 {
        line += &format!("; of {} more it is not known whether anything else holds them", size(freed.undecided_bytes));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_told_as_one() {
        let mut figures = Freed { bytes: 4096, ..Freed::default() };
        assert_eq!(freed(&figures), "deleting frees 4.0 KiB");
        (figures.bound, figures.undecided_bytes) = (Bound::AtLeast, 1 << 20);
        let expected =
            "deleting frees at least 4.0 KiB; of 1.0 MiB more it is not known whether anything else holds them";
        assert_eq!(freed(&figures), expected);
    }
}
