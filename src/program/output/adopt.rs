//! The backups that were adopted: a line each for people, objects for scripts.

use super::Output;
use super::summary;
use super::terminal::harmless;
use crate::error::Error;
use crate::snapshot::adopt::{Row, Stats};
use crate::util::text::{self, counted, size};
use serde::Serialize;

#[derive(Serialize)]
struct BackupLine<'a> {
    r#type: &'static str,
    tree: String,
    source: String,
    created: String,
    name: Option<&'a str>,
    known: bool,
    files: Option<u64>,
    cloned_bytes: Option<u64>,
    copied_bytes: Option<u64>,
    read_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    adopted: u64,
    known: u64,
    errors: u64,
    dry_run: bool,
    /// Whether the run did not end early.
    complete: bool,
    seconds: f64,
}

/// Shows the result of `adopt`, also if it ended early with an error.
pub(crate) fn show(output: &Output, stats: &Stats, is_dry_run: bool, error: Option<&Error>) {
    if output.is_json() {
        stats.rows.iter().for_each(|row| output.json(&object(row)));
        let Stats { adopted, known, errors, seconds, .. } = *stats;
        output.json(&Summary {
            r#type: "summary",
            command: "adopt",
            adopted,
            known,
            errors,
            dry_run: is_dry_run,
            complete: error.is_none(),
            seconds,
        });
        return;
    }
    if output.is_quiet() {
        return;
    }
    for row in &stats.rows {
        output.line(&line(row, is_dry_run));
    }
    let backups = counted(stats.adopted, "backup");
    let heading = if is_dry_run {
        format!("would adopt {backups} (dry run, nothing was done)")
    } else {
        format!("adopted {backups}")
    };
    let sum = |field: fn(&crate::snapshot::create::Stats) -> u64| {
        stats.rows.iter().filter_map(|row| row.stats.as_ref()).map(field).fold(0, u64::saturating_add)
    };
    let mut rows = Vec::new();
    if stats.known > 0 {
        rows.push(("known", format!("{} of an earlier run", counted(stats.known, "backup"))));
    }
    if !is_dry_run {
        rows.push(("cloned", size(sum(|stats| stats.cloned_bytes))));
        if sum(|stats| stats.copied_bytes) > 0 {
            rows.push(("copied", size(sum(|stats| stats.copied_bytes))));
        }
        rows.push(("read", size(sum(|stats| stats.read_bytes))));
    }
    rows.push(("time", format!("{:.2} s", stats.seconds)));
    summary::print(output, &heading, &rows);
}

fn object(row: &Row) -> BackupLine<'_> {
    let of = |field: fn(&crate::snapshot::create::Stats) -> u64| row.stats.as_ref().map(field);
    BackupLine {
        r#type: "backup",
        tree: row.tree.to_string_lossy().into_owned(),
        source: row.source.to_string_lossy().into_owned(),
        created: text::rfc3339(row.created.seconds, row.created.nanos),
        name: row.name.as_deref(),
        known: row.known,
        files: of(|stats| stats.files),
        cloned_bytes: of(|stats| stats.cloned_bytes),
        copied_bytes: of(|stats| stats.copied_bytes),
        read_bytes: of(|stats| stats.read_bytes),
    }
}

/// `2026-11-20T020000Z  /home  from /mnt/rsnapshot/daily.0`
fn line(row: &Row, is_dry_run: bool) -> String {
    let time = text::rfc3339(row.created.seconds, 0);
    let name = row.name.as_deref().unwrap_or(&time);
    let fate = match (row.known, is_dry_run) {
        (true, _) => "is there",
        (false, true) => "would be made",
        (false, false) => "made",
    };
    format!("{}  {fate}  {} from {}", harmless(name), text::path(&row.source), text::path(&row.tree))
}
