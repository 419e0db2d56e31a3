//! The snapshots that were kept or removed: a table for people, objects for scripts.

use super::Output;
use super::bound;
use super::summary;
use super::table::{Align, Cell, MINIMAL_NAME, Table};
use super::terminal::{Style, harmless, stdout_columns};
use super::wrap::wrap;
use crate::error::Error;
use crate::snapshot::prune::{Counted, Freed, Reason, Row, Stats};
use crate::util::text::{self, counted, size};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

#[derive(Serialize)]
struct SnapshotLine<'a> {
    r#type: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    kept: bool,
    reasons: Vec<&'static str>,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    kept: u64,
    removed: u64,
    removed_is: &'static str,
    freed_bytes: u64,
    freed_is: &'static str,
    freed_from: &'static str,
    /// The part of `freed_bytes` that Btrfs's own trees take. Only a dry run counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    freed_metadata_bytes: Option<u64>,
    errors: u64,
    dry_run: bool,
    /// Whether the run did not end early.
    complete: bool,
    seconds: f64,
}

/// Shows the result of `prune` or `remove`, also if it ended early with an error.
pub(crate) fn show(output: &Output, command: &'static str, stats: &Stats, is_dry_run: bool, error: Option<&Error>) {
    if output.is_json() {
        stats.rows.iter().for_each(|row| output.json(&object(row)));
        output.json(&object_of_sums(command, stats, is_dry_run, error.is_none()));
        return;
    }
    if !output.is_quiet() {
        table(output, &stats.rows, is_dry_run);
        summary::print(output, &heading(command, stats, is_dry_run), &sums(stats, is_dry_run));
    }
}

fn object(row: &Row) -> SnapshotLine<'_> {
    SnapshotLine {
        r#type: "snapshot",
        name: &row.name,
        created: row.created.map(|created| text::rfc3339(created.seconds, created.nanos)),
        kept: row.kept,
        reasons: row.reasons.iter().map(Reason::code).collect(),
    }
}

fn object_of_sums(command: &'static str, stats: &Stats, dry_run: bool, complete: bool) -> Summary {
    let Stats { kept, removed, removed_bound, freed, errors, seconds, .. } = stats;
    Summary {
        r#type: "summary",
        command,
        kept: *kept,
        removed: *removed,
        removed_is: bound::name(*removed_bound),
        freed_bytes: freed.bytes,
        freed_is: bound::name(freed.bound),
        freed_from: match freed.counted {
            Counted::FreeSpace => "free-space",
            _ => "extents",
        },
        freed_metadata_bytes: (freed.counted == Counted::Extents).then_some(freed.metadata_bytes),
        errors: *errors,
        dry_run,
        complete,
        seconds: *seconds,
    }
}

/// The widths of the other columns and their gaps, without the reasons.
const FATE: usize = "would be removed".len();
/// The fewest columns for the reasons.
const MINIMAL_REASONS: usize = 24;

fn table(output: &Output, rows: &[Row], is_dry_run: bool) {
    if rows.is_empty() {
        return;
    }
    let columns = stdout_columns().unwrap_or(80);
    let removed = if is_dry_run { "would be removed" } else { "removed" };
    let fate_width = rows.iter().map(|row| if row.kept { 4 } else { removed.len() }).max().unwrap_or(FATE);
    let room = columns.saturating_sub(fate_width + 4 + MINIMAL_REASONS).max(MINIMAL_NAME);
    let widths = rows.iter().map(|row| harmless(&row.name).width()).filter(|width| *width <= room);
    let name_width = widths.fold("snapshot".len(), usize::max);
    let behind = name_width + fate_width + 4;
    let mut table = Table::new(output, &[("snapshot", Align::Left), ("", Align::Left), ("because", Align::Left)]);
    for row in rows {
        let name = harmless(&row.name);
        let mut cell = Cell::from(&name);
        // A long name gets a line of its own.
        if name.width() > room {
            table.text(name.into_owned());
            cell = Cell::from("");
        }
        let fate = if row.kept { Cell::from("kept") } else { Cell::styled(removed, Style::Bold) };
        let reasons = row.reasons.iter().map(words).collect::<Vec<_>>().join(", ");
        let wrapped = wrap(&harmless(&reasons), behind, 0, columns.max(behind + MINIMAL_REASONS));
        let mut lines = wrapped.lines();
        table.row(vec![cell, fate, Cell::from(lines.next().unwrap_or("").trim_start())]);
        lines.for_each(|line| table.text(format!("{:behind$}{}", "", line.trim_start())));
    }
    table.finish();
}

/// A reason to keep a snapshot.
pub(super) fn words(reason: &Reason) -> String {
    match reason {
        Reason::Newest => "newest of its sources".into(),
        Reason::NewestComplete => "newest complete one".into(),
        Reason::Last => "last".into(),
        Reason::Hourly => "hourly".into(),
        Reason::Daily => "daily".into(),
        Reason::Weekly => "weekly".into(),
        Reason::Monthly => "monthly".into(),
        Reason::Yearly => "yearly".into(),
        Reason::Within => "recent".into(),
        Reason::Tag(tag) => format!("tag {tag}"),
        Reason::Pinned => "pinned".into(),
        Reason::Future => "dated in the future".into(),
        Reason::Free => "enough space is free".into(),
        Reason::InUse => "in use".into(),
        Reason::Damaged => "damaged manifest".into(),
        Reason::Failed => "could not be removed".into(),
    }
}

fn heading(command: &str, stats: &Stats, is_dry_run: bool) -> String {
    let Stats { kept, removed, .. } = stats;
    // `remove` is about the named snapshots only: all others are kept too.
    let kept = match (command, kept) {
        ("remove", 0) => String::new(),
        (_, kept) if is_dry_run => format!(", {kept} kept"),
        (_, kept) => format!(", kept {kept}"),
    };
    if is_dry_run {
        let removed = format!("{}{}", bound::words(stats.removed_bound), counted(*removed, "snapshot"));
        return format!("dry run, nothing was changed: {removed} would be removed{kept}");
    }
    format!("removed {}{kept}", counted(*removed, "snapshot"))
}

fn sums(stats: &Stats, is_dry_run: bool) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if stats.removed > 0 {
        rows.push(("freed", freed(&stats.freed, is_dry_run)));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    rows
}

/// The freed space, and how it was counted.
fn freed(freed: &Freed, is_dry_run: bool) -> String {
    let bytes = size(freed.bytes);
    match freed.counted {
        Counted::FreeSpace if freed.bound == crate::snapshot::prune::Bound::AtLeast => {
            format!("{bytes} so far; the filesystem is still freeing space")
        }
        Counted::FreeSpace => format!("{bytes}, by the free space of the filesystem"),
        _ => {
            let would = if is_dry_run { "would be " } else { "" };
            format!("{would}{}{bytes}, counted from extents", bound::words(freed.bound))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::prune::Bound;

    #[test]
    fn a_figure_says_how_it_was_counted() {
        let figure = |bound, counted| Freed { bytes: 4096, bound, counted, ..Freed::default() };
        let shown = freed(&figure(Bound::AtLeast, Counted::Extents), true);
        assert_eq!(shown, "would be at least 4.0 KiB, counted from extents");
        let shown = freed(&figure(Bound::About, Counted::FreeSpace), false);
        assert_eq!(shown, "4.0 KiB, by the free space of the filesystem");
    }
}
