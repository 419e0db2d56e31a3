//! The objects of the report for scripts (`docs/messages.md`).

use crate::monitor::Note;
use crate::program::output::json::PathField;
use crate::program::output::{Output, bound};
use crate::snapshot::prune::Reason;
use crate::snapshot::report::{Group, LargeFile, PathChange, Row, Stats, Verification, Version};
use crate::usage::Bound;
use crate::util::text::rfc3339;
use serde::Serialize;

#[derive(Serialize)]
struct GroupLine<'a> {
    r#type: &'static str,
    group: usize,
    host: &'a str,
    sources: Vec<PathField<'a>>,
    snapshots: usize,
}

#[derive(Serialize)]
struct SnapshotLine<'a> {
    r#type: &'static str,
    name: &'a str,
    created: String,
    /// The day in the time zone of the report.
    day: String,
    group: usize,
    tags: &'a [String],
    pinned: bool,
    files: u64,
    bytes: u64,
    added_data_bytes: Option<u64>,
    added_metadata_bytes: Option<u64>,
    errors: u64,
    freed_bytes: Option<u64>,
    freed_is: Option<&'static str>,
    kept: Option<bool>,
    reasons: Option<Vec<&'static str>>,
}

#[derive(Serialize)]
struct ChangeLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    bytes: u64,
    bytes_are: &'static str,
    added: u64,
    changed: u64,
    removed: u64,
    last: &'a str,
}

#[derive(Serialize)]
struct FileLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    size: u64,
    snapshot: &'a str,
    all_versions: u64,
    versions: Vec<VersionObject<'a>>,
}

#[derive(Serialize)]
struct VersionObject<'a> {
    first: &'a str,
    last: &'a str,
    snapshots: u64,
    size: u64,
    shared_bytes: Option<u64>,
    shared_is: &'static str,
}

#[derive(Serialize)]
struct ProblemLine<'a> {
    r#type: &'static str,
    run: &'static str,
    snapshot: Option<&'a str>,
    code: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct VerificationLine {
    r#type: &'static str,
    ended: String,
    all: bool,
    percent: f64,
    snapshots: u64,
    files: u64,
    checked_bytes: u64,
    damaged: u64,
    repaired: u64,
    errors: u64,
}

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    command: &'static str,
    created: String,
    time_zone: &'a str,
    snapshots: usize,
    groups: usize,
    unlisted: &'a [String],
    disk_total_bytes: Option<u64>,
    disk_free_bytes: Option<u64>,
    /// Whether the rules of the prune were given.
    rules: Option<bool>,
    kept: Option<u64>,
    removed: Option<u64>,
    removed_is: Option<&'static str>,
    freed_bytes: Option<u64>,
    freed_is: Option<&'static str>,
    compared: u64,
    not_compared: u64,
    errors: u64,
    seconds: f64,
}

/// Prints the objects.
pub(super) fn show(output: &Output, stats: &Stats) {
    stats.groups.iter().enumerate().for_each(|(number, group)| output.json(&of_group(number, group)));
    stats.snapshots.iter().for_each(|row| output.json(&of_snapshot(row)));
    stats.changes.new.iter().for_each(|change| output.json(&of_change("new_data", change)));
    stats.changes.removed.iter().for_each(|change| output.json(&of_change("removed_data", change)));
    stats.files.iter().for_each(|file| output.json(&of_file(file)));
    for row in &stats.snapshots {
        for note in row.problems.iter().flat_map(|problems| &problems.first) {
            output.json(&of_problem("snapshot", Some(&row.name), note));
        }
    }
    if let Some(verified) = &stats.verification {
        output.json(&of_verification(verified));
        verified.first_damage.iter().for_each(|note| output.json(&of_problem("damage", None, note)));
        verified.first_problems.iter().for_each(|note| output.json(&of_problem("verify", None, note)));
    }
    output.json(&summary(stats));
}

fn of_group(group: usize, found: &Group) -> GroupLine<'_> {
    let sources = found.sources.iter().map(|source| PathField::new(source)).collect();
    GroupLine { r#type: "group", group, host: &found.host, sources, snapshots: found.snapshots.len() }
}

fn of_snapshot(row: &Row) -> SnapshotLine<'_> {
    SnapshotLine {
        r#type: "snapshot",
        name: &row.name,
        created: rfc3339(row.created.seconds, row.created.nanos),
        day: super::html::day(row.local),
        group: row.group,
        tags: &row.tags,
        pinned: row.pinned,
        files: row.files,
        bytes: row.bytes,
        added_data_bytes: row.added.map(|added| added.data_bytes),
        added_metadata_bytes: row.added.map(|added| added.metadata_bytes),
        errors: row.errors,
        freed_bytes: row.freed.map(|freed| freed.bytes),
        freed_is: row.freed.map(|freed| bound::name(freed.bound)),
        kept: row.kept.as_ref().map(|reasons| !reasons.is_empty()),
        reasons: row.kept.as_ref().map(|reasons| reasons.iter().map(Reason::code).collect()),
    }
}

fn of_change<'a>(kind: &'static str, change: &'a PathChange) -> ChangeLine<'a> {
    let PathChange { path, bytes, bound, added, changed, removed, last, .. } = change;
    let path = PathField::new(path);
    let (added, changed, removed) = (*added, *changed, *removed);
    ChangeLine { r#type: kind, path, bytes: *bytes, bytes_are: bound::name(*bound), added, changed, removed, last }
}

fn of_file(file: &LargeFile) -> FileLine<'_> {
    FileLine {
        r#type: "file",
        path: PathField::new(&file.path),
        size: file.size,
        snapshot: &file.snapshot,
        all_versions: file.all_versions,
        versions: file.versions.iter().map(of_version).collect(),
    }
}

fn of_version(version: &Version) -> VersionObject<'_> {
    let Version { first, last, snapshots, size, shared_bytes, shared_bound, .. } = version;
    let shared_is = bound::name(shared_bytes.map_or(Bound::Exact, |_| *shared_bound));
    VersionObject { first, last, snapshots: *snapshots, size: *size, shared_bytes: *shared_bytes, shared_is }
}

fn of_problem<'a>(run: &'static str, snapshot: Option<&'a str>, note: &'a Note) -> ProblemLine<'a> {
    ProblemLine { r#type: "problem", run, snapshot, code: &note.code, message: &note.message }
}

fn of_verification(verified: &Verification) -> VerificationLine {
    VerificationLine {
        r#type: "verification",
        ended: rfc3339(verified.ended.seconds, 0),
        all: verified.is_all,
        percent: verified.percent,
        snapshots: verified.snapshots,
        files: verified.files,
        checked_bytes: verified.checked_bytes,
        damaged: verified.damaged,
        repaired: verified.repaired,
        errors: verified.errors,
    }
}

fn summary(stats: &Stats) -> Summary<'_> {
    let pruning = stats.pruning.as_ref();
    Summary {
        r#type: "summary",
        command: "report",
        created: rfc3339(stats.created.seconds, stats.created.nanos),
        time_zone: &stats.time_zone,
        snapshots: stats.snapshots.len(),
        groups: stats.groups.len(),
        unlisted: &stats.unlisted,
        disk_total_bytes: stats.space.map(|space| space.total_bytes),
        disk_free_bytes: stats.space.map(|space| space.free_bytes),
        rules: pruning.map(|pruning| pruning.is_given),
        kept: pruning.map(|pruning| pruning.kept),
        removed: pruning.map(|pruning| pruning.removed),
        removed_is: pruning.map(|pruning| bound::name(pruning.removed_bound)),
        freed_bytes: pruning.map(|pruning| pruning.freed.bytes),
        freed_is: pruning.map(|pruning| bound::name(pruning.freed.bound)),
        compared: stats.changes.compared,
        not_compared: stats.changes.omitted,
        errors: stats.errors,
        seconds: stats.seconds,
    }
}
