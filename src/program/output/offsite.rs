//! The results of `pleach offsite`.

use super::Output;
use super::json::PathField;
use super::prune::words;
use super::summary;
use super::table::{Align, Cell, Table};
use super::terminal::{Style, harmless};
use crate::error::Error;
use crate::snapshot::offsite::{
    CheckStats, ListStats, PruneStats, PushStats, Pushed, RestoreStats, Row, Snapshot, Url,
};
use crate::snapshot::prune::Reason;
use crate::util::text::{self, count, counted, size};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct PushedLine<'a> {
    r#type: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    files: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_bytes: Option<u64>,
}

#[derive(Serialize)]
struct SnapshotLine<'a> {
    r#type: &'static str,
    name: &'a str,
    id: &'a str,
    created: String,
    host: &'a str,
    sources: Vec<PathField<'a>>,
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

#[derive(Serialize)]
struct PrunedLine<'a> {
    r#type: &'static str,
    name: &'a str,
    id: &'a str,
    created: String,
    kept: bool,
    reasons: Vec<&'static str>,
}

#[derive(Serialize)]
struct DamageLine<'a> {
    r#type: &'static str,
    what: &'a str,
}

/// The end of each verb's output. What a verb does not count is absent.
#[derive(Default, Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    command: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshots: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unchanged: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dirs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restored_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_data: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freed_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    later_bytes: Option<u64>,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    /// Whether the run did not end early.
    complete: bool,
    seconds: f64,
}

fn summary(command: &'static str, seconds: f64) -> Summary<'static> {
    Summary { r#type: "summary", command, complete: true, seconds, ..Summary::default() }
}

/// Shows that a store was made.
pub(crate) fn made(output: &Output, url: &Url, seconds: f64) {
    if output.is_json() {
        output.json(&Summary { url: Some(url.to_string()), ..summary("offsite init", seconds) });
    } else if !output.is_quiet() {
        output.line(&Style::Bold.paint(&format!("made the store {}", harmless(&url.to_string())), output.colours()));
        output.line("  keep its password in another place too: without it nobody can read the store");
    }
}

/// Shows the result of `push`, also if it ended early with an error.
pub(crate) fn pushed(output: &Output, stats: &PushStats, url: &Url, is_dry_run: bool, error: Option<&Error>) {
    let sum = |of: fn(&Pushed) -> u64| stats.snapshots.iter().map(of).fold(0, u64::saturating_add);
    let number = stats.snapshots.len() as u64;
    let (read, stored) = (sum(|pushed| pushed.read_bytes), sum(|pushed| pushed.stored_bytes));
    if output.is_json() {
        for Pushed { name, id, parent, files, read_bytes, stored_bytes, .. } in &stats.snapshots {
            let amount = |bytes: &u64| (!is_dry_run).then_some(*bytes);
            output.json(&PushedLine {
                r#type: "snapshot",
                name,
                id,
                parent: parent.as_deref(),
                files: *files,
                read_bytes: amount(read_bytes),
                stored_bytes: amount(stored_bytes),
            });
        }
        return output.json(&Summary {
            snapshots: Some(number),
            files: Some(sum(|pushed| pushed.files)),
            read_bytes: Some(read),
            stored_bytes: Some(stored),
            errors: stats.errors,
            dry_run: Some(is_dry_run),
            complete: error.is_none(),
            ..summary("offsite push", stats.seconds)
        });
    }
    if output.is_quiet() {
        return;
    }
    if is_dry_run {
        stats.snapshots.iter().for_each(|pushed| output.line(&harmless(&pushed.name)));
    } else if !stats.snapshots.is_empty() {
        let columns =
            [("snapshot", Align::Left), ("files", Align::Right), ("read", Align::Right), ("stored", Align::Right)];
        let mut table = Table::new(output, &columns);
        for Pushed { name, files, read_bytes, stored_bytes, .. } in &stats.snapshots {
            let cells = [harmless(name).into_owned(), count(*files), size(*read_bytes), size(*stored_bytes)];
            table.row(cells.iter().map(Cell::from).collect());
        }
        table.finish();
    }
    let (url, snapshots) = (url.to_string(), counted(number, "snapshot"));
    let heading = match (is_dry_run, number) {
        (_, 0) if stats.errors > 0 => format!("nothing was sent to {}", harmless(&url)),
        (_, 0) => format!("{} lacks no snapshot", harmless(&url)),
        (true, _) => format!("dry run, nothing was changed: {snapshots} would be sent to {}", harmless(&url)),
        (false, _) => format!("sent {snapshots} to {}", harmless(&url)),
    };
    let mut rows = Vec::new();
    if number > 0 && !is_dry_run {
        rows.push(("read", summary::size_or_nothing(read)));
        rows.push(("stored", summary::size_or_nothing(stored)));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    summary::print(output, &heading, &rows);
}

/// Shows the snapshots in a store.
pub(crate) fn listed(output: &Output, stats: &ListStats, url: &Url, seconds: f64) {
    let ListStats { snapshots, errors, .. } = stats;
    if output.is_json() {
        for snapshot in snapshots {
            output.json(&SnapshotLine {
                r#type: "snapshot",
                name: &snapshot.name,
                id: &snapshot.id,
                created: rfc3339(snapshot),
                host: &snapshot.host,
                sources: snapshot.sources.iter().map(|source| PathField::new(source)).collect(),
                tags: &snapshot.tags,
                files: snapshot.files,
                bytes: snapshot.bytes,
            });
        }
        let snapshots = Some(snapshots.len() as u64);
        return output.json(&Summary { snapshots, errors: *errors, ..summary("offsite list", seconds) });
    }
    if snapshots.is_empty() && *errors == 0 && !output.is_quiet() {
        return output.line(&format!("{} has no snapshot of pleach", harmless(&url.to_string())));
    }
    let columns = [
        ("snapshot", Align::Left),
        ("id", Align::Left),
        ("files", Align::Right),
        ("size", Align::Right),
        ("host", Align::Left),
        ("sources", Align::Left),
    ];
    let mut table = Table::new(output, &columns);
    for snapshot in snapshots {
        let sources: Vec<_> = snapshot.sources.iter().map(|source| source.to_string_lossy()).collect();
        let cells = [
            harmless(&snapshot.name).into_owned(),
            short(&snapshot.id).to_string(),
            snapshot.files.map(count).unwrap_or_default(),
            snapshot.bytes.map(size).unwrap_or_default(),
            harmless(&snapshot.host).into_owned(),
            harmless(&sources.join(", ")).into_owned(),
        ];
        table.row(cells.iter().map(Cell::from).collect());
    }
    table.finish();
}

/// Shows the result of `restore`.
pub(crate) fn restored(output: &Output, stats: &RestoreStats, target: &Path, is_dry_run: bool) {
    if output.is_json() {
        return output.json(&Summary {
            snapshot: Some(&stats.snapshot),
            files: Some(stats.files),
            unchanged: Some(stats.unchanged),
            dirs: Some(stats.dirs),
            restored_bytes: Some(stats.restored_bytes),
            errors: stats.errors,
            dry_run: Some(is_dry_run),
            ..summary("offsite restore", stats.seconds)
        });
    }
    if output.is_quiet() {
        return;
    }
    let (snapshot, target) = (harmless(&stats.snapshot), text::path(target));
    let heading = match is_dry_run {
        true => format!("dry run, nothing was changed: {snapshot} would be restored below {target}"),
        false => format!("restored {snapshot} below {target}"),
    };
    let files = summary::files(stats.files + stats.unchanged, stats.unchanged, "restored");
    let mut rows = vec![("files", files), ("data", summary::size_or_nothing(stats.restored_bytes))];
    summary::end(&mut rows, stats.errors, stats.seconds);
    summary::print(output, &heading, &rows);
}

/// Shows the result of `check`.
pub(crate) fn checked(output: &Output, stats: &CheckStats, url: &Url, read_data: Option<f64>) {
    let damaged = stats.damage.len() as u64;
    if output.is_json() {
        stats.damage.iter().for_each(|what| output.json(&DamageLine { r#type: "damage", what }));
        return output.json(&Summary {
            read_data: Some(read_data.unwrap_or(0.0)),
            damaged: Some(damaged),
            ..summary("offsite check", stats.seconds)
        });
    }
    stats.damage.iter().for_each(|what| output.line(&format!("damage: {}", harmless(what))));
    if output.is_quiet() {
        return;
    }
    stats.notes.iter().for_each(|what| output.line(&format!("note: {}", harmless(what))));
    let url = url.to_string();
    let heading = match damaged {
        0 => format!("{}: no damage found", harmless(&url)),
        _ => format!("{}: found {}", harmless(&url), counted(damaged, "problem")),
    };
    let read = match read_data {
        None => "only the index and the directories; --read-data reads all of it".to_string(),
        Some(percent) => format!("{} of the data", summary::percent(percent)),
    };
    let mut rows = vec![("read", read)];
    if damaged > 0 {
        let repair = "push again to a new store: see \"Damage\" in the off-site guide";
        rows.push(("repair", repair.to_string()));
    }
    summary::end(&mut rows, 0, stats.seconds);
    summary::print(output, &heading, &rows);
}

/// Shows the result of `prune`, also if it ended early with an error.
pub(crate) fn pruned(output: &Output, stats: &PruneStats, url: &Url, is_dry_run: bool, error: Option<&Error>) {
    let removed = stats.removed();
    let kept = stats.rows.len() as u64 - removed;
    if output.is_json() {
        for Row { snapshot, reasons, .. } in &stats.rows {
            output.json(&PrunedLine {
                r#type: "snapshot",
                name: &snapshot.name,
                id: &snapshot.id,
                created: rfc3339(snapshot),
                kept: !reasons.is_empty(),
                reasons: reasons.iter().map(Reason::code).collect(),
            });
        }
        return output.json(&Summary {
            kept: Some(kept),
            removed: Some(removed),
            freed_bytes: Some(stats.freed_bytes),
            later_bytes: Some(stats.later_bytes),
            errors: stats.errors,
            dry_run: Some(is_dry_run),
            complete: error.is_none(),
            ..summary("offsite prune", stats.seconds)
        });
    }
    if output.is_quiet() {
        return;
    }
    let gone = if is_dry_run { "would be removed" } else { "removed" };
    let mut table = Table::new(output, &[("snapshot", Align::Left), ("", Align::Left), ("because", Align::Left)]);
    for Row { snapshot, reasons, .. } in &stats.rows {
        let fate = if reasons.is_empty() { Cell::styled(gone, Style::Bold) } else { Cell::from("kept") };
        let reasons = reasons.iter().map(words).collect::<Vec<_>>().join(", ");
        table.row(vec![Cell::from(&harmless(&snapshot.name)), fate, Cell::from(&harmless(&reasons))]);
    }
    table.finish();
    let (url, snapshots) = (url.to_string(), counted(removed, "snapshot"));
    let heading = match is_dry_run {
        true => format!("dry run, nothing was changed: {snapshots} would be removed, {kept} kept"),
        false => format!("removed {snapshots} from {}, kept {kept}", harmless(&url)),
    };
    let mut rows = vec![("freed", summary::size_or_nothing(stats.freed_bytes))];
    if stats.later_bytes > 0 {
        let later = format!("{}, by a run after 23 hours: another program may be using it", size(stats.later_bytes));
        rows.push(("later", later));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    summary::print(output, &heading, &rows);
}

fn rfc3339(snapshot: &Snapshot) -> String {
    text::rfc3339(snapshot.created.seconds, snapshot.created.nanos)
}

/// As long as restic shows an ID.
fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}
