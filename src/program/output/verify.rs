//! The damage that a verification finds, line by line, and its summary.

use super::json::{FromField, PathField};
use super::summary;
use super::terminal::{Style, harmless};
use super::{Output, reasons};
use crate::error::Error;
use crate::monitor::{Damage, Repaired};
use crate::program::exit_status::ExitStatus;
use crate::snapshot::verify::{Options, RepairFrom, Row, Stats};
use crate::util::text::{self, count, counted, size};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct DamageLine<'a> {
    r#type: &'static str,
    snapshot: &'a str,
    #[serde(flatten)]
    path: PathField<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    why: &'static str,
}

#[derive(Serialize)]
struct RepairedLine<'a> {
    r#type: &'static str,
    snapshot: &'a str,
    #[serde(flatten)]
    path: PathField<'a>,
    #[serde(flatten)]
    from: FromField<'a>,
}

#[derive(Serialize)]
struct SnapshotLine<'a> {
    r#type: &'static str,
    name: &'a str,
    files: u64,
    checked_bytes: u64,
    damaged: u64,
    unshared_bytes: u64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    snapshots: u64,
    files: u64,
    unhashed_files: u64,
    checked_files: u64,
    checked_bytes: u64,
    read_bytes: u64,
    damaged: u64,
    repaired: u64,
    unshared_bytes: u64,
    errors: u64,
    /// Whether the verification finished.
    complete: bool,
    seconds: f64,
}

/// Prints damage as soon as it is found.
pub(super) fn damage(output: &Output, damage: &Damage<'_>) {
    let Damage { snapshot, path, offset, why } = *damage;
    let at = offset.map_or(String::new(), |offset| format!(" at byte {}", count(offset)));
    let line = format!("{}: {}: {}{at}", harmless(snapshot), text::path(path), reasons::fault(why));
    output.note(&line);
    if output.is_json() {
        let path = PathField::new(path);
        return output.json(&DamageLine { r#type: "damage", snapshot, path, offset, why: why.name() });
    }
    output.line(&Style::Red.paint(&line, output.colours()));
}

/// Prints a repair as soon as it is done.
pub(super) fn repaired(output: &Output, repaired: &Repaired<'_>) {
    let Repaired { snapshot, path, from } = *repaired;
    if output.is_json() {
        let (path, from) = (PathField::new(path), FromField::new(from));
        return output.json(&RepairedLine { r#type: "repaired", snapshot, path, from });
    }
    output.line(&format!("{}: {}: repaired from {}", harmless(snapshot), text::path(path), text::path(from)));
}

/// Prints the summary.
pub(crate) fn show(output: &Output, stats: &Stats, options: &Options, repo: &Path) {
    if output.is_json() {
        stats.rows.iter().for_each(|row| output.json(&object(row)));
        output.json(&summary_of(stats, true));
    } else if !output.is_quiet() {
        let what = match stats.damaged {
            0 if stats.errors > 0 => "found no damage in what could be read of",
            0 => "found no damage in",
            damaged if damaged == stats.repaired => "repaired all damage in",
            _ => "found damage in",
        };
        let (damaged, all) = (stats.rows.iter().filter(|row| row.damaged > 0).count(), stats.rows.len());
        let snapshots = match damaged {
            0 => counted(all as u64, "snapshot"),
            _ => format!("{} of {}", count(damaged as u64), counted(all as u64, "snapshot")),
        };
        // A headline without this could be taken for a check of all data.
        let part = match options.read {
            _ if options.quick => "; no data was read".into(),
            Some(percent) if percent < 100.0 => {
                let files = counted(stats.files, "file");
                format!("; the data of {} of {files} was read", count(stats.checked_files))
            }
            _ => String::new(),
        };
        let heading = format!("{what} {snapshots} of {}{part}", text::path(repo));
        summary::print(output, &heading, &rows(stats, options));
    }
}

/// Prints why a verification ended early, and what it had found. Returns the status to exit with.
pub(crate) fn show_stopped(output: &Output, error: &Error, stats: &Stats, options: &Options) -> ExitStatus {
    let found = found_until_then(stats);
    let rest = if options.read.is_some() { "; the next run reads the same part again" } else { "" };
    output.error(error);
    let changed = match stats.repaired {
        0 => "nothing was changed".into(),
        repaired => format!("repaired {}", summary::entries(repaired)),
    };
    output.info(&format!("{changed}; {found}{rest}"));
    if output.is_json() {
        output.json(&summary_of(stats, false));
    }
    ExitStatus::of(error)
}

/// Reports that a verification ended early, because nobody reads its results, or they cannot be written.
pub(crate) fn show_unread(output: &Output, stats: &Stats) {
    output.info(&format!("stopped, because its output cannot be written; {}", found_until_then(stats)));
}

fn found_until_then(stats: &Stats) -> String {
    match stats.damaged {
        0 => "no damage was found until then".into(),
        damaged => format!("damage of {} was found until then", summary::entries(damaged)),
    }
}

fn object(row: &Row) -> SnapshotLine<'_> {
    let Row { name, files, checked_bytes, damaged, unshared_bytes, .. } = row;
    SnapshotLine {
        r#type: "snapshot",
        name,
        files: *files,
        checked_bytes: *checked_bytes,
        damaged: *damaged,
        unshared_bytes: *unshared_bytes,
    }
}

fn summary_of(stats: &Stats, complete: bool) -> Summary {
    Summary {
        r#type: "summary",
        command: "verify",
        snapshots: stats.rows.len() as u64,
        files: stats.files,
        unhashed_files: stats.unhashed_files,
        checked_files: stats.checked_files,
        checked_bytes: stats.checked_bytes,
        read_bytes: stats.read_bytes,
        damaged: stats.damaged,
        repaired: stats.repaired,
        unshared_bytes: stats.unshared_bytes,
        errors: stats.errors,
        complete,
        seconds: stats.seconds,
    }
}

fn rows(stats: &Stats, options: &Options) -> Vec<(&'static str, String)> {
    let mut rows = vec![("files", count(stats.files))];
    if !options.quick {
        rows.push(("checked", format!("{} in {}", size(stats.checked_bytes), counted(stats.checked_files, "file"))));
        rows.push(("read", summary::size_or_nothing(stats.read_bytes)));
        if stats.unhashed_files > 0 {
            rows.push(("no hash", format!("{}, compared by size and times", counted(stats.unhashed_files, "file"))));
        }
    }
    if stats.damaged > 0 {
        rows.push(("damaged", format!("{}, named above", summary::entries(stats.damaged))));
    }
    if let Some(source) = options.repair_from.as_ref().filter(|_| stats.damaged > 0) {
        let left = stats.damaged.saturating_sub(stats.repaired);
        let rest = match (left, stats.repaired, stats.errors) {
            (0, _, _) => String::new(),
            (left, 0, 0) => {
                let source = match source {
                    RepairFrom::Snapshot(id) => harmless(id).into_owned(),
                    RepairFrom::Directory(path) => text::path(path).to_string(),
                };
                format!("; {} not: {source} has no sound copy at their paths", summary::entries(left))
            }
            (left, _, _) => format!("; {} not", summary::entries(left)),
        };
        rows.push(("repaired", format!("{}{rest}", summary::entries(stats.repaired))));
    }
    if options.sharing {
        let of = |row: &Row| format!("{} in {}", size(row.unshared_bytes), harmless(&row.name));
        let all: Vec<_> = stats.rows.iter().filter(|row| row.unshared_bytes > 0).map(of).collect();
        rows.push(("apart", if all.is_empty() { "nothing".into() } else { all.join(", ") }));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    rows
}
