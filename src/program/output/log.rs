//! The versions of a path: a table for people, objects for scripts.

use super::Output;
use super::json::PathField;
use super::table::{Align, Cell, Table};
use super::terminal::Style;
use crate::snapshot::log::{Kind, Stats, Version};
use crate::util::text::{self, count, counted, size};
use serde::Serialize;

#[derive(Serialize)]
struct VersionLine<'a> {
    r#type: &'static str,
    kind: &'static str,
    first: &'a str,
    last: &'a str,
    snapshots: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blake3: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<PathField<'a>>,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    versions: u64,
    snapshots: u64,
    incomplete: u64,
    errors: u64,
    seconds: f64,
}

/// Shows the versions.
pub(crate) fn show(output: &Output, stats: &Stats) {
    let is_version = |version: &&Version| !matches!(version.kind, Kind::Absent | Kind::Unreadable);
    let versions = stats.versions.iter().filter(is_version).count() as u64;
    if output.is_json() {
        stats.versions.iter().for_each(|version| output.json(&object(version)));
        let Stats { snapshots, incomplete, errors, seconds, .. } = *stats;
        let (r#type, command) = ("summary", "log");
        output.json(&Summary { r#type, command, versions, snapshots, incomplete, errors, seconds });
        return;
    }
    if stats.versions.is_empty() {
        return output.info("no readable snapshot has it");
    }
    let columns = [
        ("first", Align::Left),
        ("last", Align::Left),
        ("in", Align::Right),
        ("size", Align::Right),
        ("modified (UTC)", Align::Left),
    ];
    let mut table = Table::new(output, &columns);
    for version in &stats.versions {
        let style = if is_version(&version) { Style::Plain } else { Style::Dim };
        let cell = |text: &str| Cell::styled(text, style);
        let mtime = version.mtime.map(|mtime| text::rfc3339(mtime.seconds, 0).replace('T', " ").replace('Z', ""));
        let (last, what) = match &version.kind {
            Kind::Absent => ("", "absent".to_string()),
            Kind::Unreadable => ("", "unreadable".to_string()),
            Kind::File { size: bytes, .. } => ("", size(*bytes)),
            Kind::Directory => ("", "directory".to_string()),
            Kind::Symlink(_) => ("", "symlink".to_string()),
            _ => ("", "special".to_string()),
        };
        let last = if version.last == version.first { last } else { &version.last };
        let mut time = mtime.unwrap_or_default();
        if let Kind::Symlink(target) = &version.kind {
            time += &format!("  -> {}", text::path(target));
        }
        let name = |text: &str| Cell::name(text, style);
        let time = Cell::path(&time, style);
        table.row(vec![name(&version.first), name(last), cell(&count(version.snapshots)), cell(&what), time]);
    }
    table.finish();
    if !output.is_quiet() {
        output.line(&format!("{} in {}", counted(versions, "version"), counted(stats.snapshots, "snapshot")));
    }
}

fn object(version: &Version) -> VersionLine<'_> {
    let Version { kind, mtime, first, last, snapshots, .. } = version;
    let mut line = VersionLine {
        r#type: "version",
        kind: "other",
        first,
        last,
        snapshots: *snapshots,
        size: None,
        mtime: mtime.map(|mtime| text::rfc3339(mtime.seconds, mtime.nanos)),
        blake3: None,
        target: None,
    };
    match kind {
        Kind::Absent => (line.r#type, line.kind) = ("absence", "absent"),
        Kind::Unreadable => (line.r#type, line.kind) = ("unreadable", "unreadable"),
        Kind::File { size, hash } => {
            (line.kind, line.size) = ("file", Some(*size));
            line.blake3 = hash.map(|hash| data_encoding::HEXLOWER.encode(&hash));
        }
        Kind::Directory => line.kind = "directory",
        Kind::Symlink(target) => (line.kind, line.target) = ("symlink", Some(PathField::new(target))),
        Kind::Other => {}
    }
    line
}
