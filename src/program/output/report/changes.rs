//! The largest changes between snapshots.

use super::html::{Table, bar, bounded, counted, path, section, text};
use crate::snapshot::report::{PathChange, Stats};
use std::fmt::Write as _;

pub(super) fn write(stats: &Stats, out: &mut String) {
    *out += &section("changes", "Largest changes");
    let changes = &stats.changes;
    match (&changes.since, changes.compared) {
        (Some(since), compared) if compared > 0 => {
            let omitted = match changes.omitted {
                0 => String::new(),
                omitted => format!(" {} older ones were not compared.", text(&crate::util::text::count(omitted))),
            };
            let _ = writeln!(
                out,
                "<p>Each snapshot was compared with the one before it: {} since <code>{}</code>.{omitted}</p>",
                counted(compared, "pair"),
                text(since)
            );
            if changes.new.is_empty() && changes.removed.is_empty() {
                out.push_str("<p>No file with content was added, changed or removed.</p>\n");
            }
            list("The files with the most new data", "#New data", &changes.new, out);
            list("The largest removed files", "#Size", &changes.removed, out);
        }
        _ if stats.snapshots.len() < 2 => out.push_str("<p>Comparing needs at least two snapshots.</p>\n"),
        _ => out.push_str("<p>No snapshots were compared.</p>\n"),
    }
    out.push_str("</section>\n");
}

/// How many files are shown at once. Smaller ones are behind a click.
const SHOWN: usize = 10;

fn list(caption: &str, figure: &'static str, changes: &[PathChange], out: &mut String) {
    let Some(most) = changes.first().map(|change| change.bytes) else { return };
    let (shown, more) = changes.split_at(changes.len().min(SHOWN));
    *out += &table(caption, figure, shown, most);
    if !more.is_empty() {
        let summary = counted(more.len() as u64, "more file");
        let more = table("Further files", figure, more, most);
        let _ = writeln!(out, "<details><summary>{summary}</summary>\n{more}</details>");
    }
}

fn table(caption: &str, figure: &'static str, changes: &[PathChange], most: u64) -> String {
    let mut table = Table::new(caption, &["File", figure, "Why", "Last time"]);
    for change in changes {
        table.row(
            "",
            &[
                path(&change.path),
                format!("{}{}", bounded(change.bytes, change.bound), bar(change.bytes, most)),
                why(change),
                format!("<code>{}</code>", text(&change.last)),
            ],
        );
    }
    table.finish()
}

/// Why a path is listed: each reason with its sign.
fn why(change: &PathChange) -> String {
    let PathChange { added, changed, removed, .. } = *change;
    let reasons = [("+", "new", added), ("M", "changed", changed), ("−", "removed", removed)];
    let words = reasons.into_iter().filter(|(.., count)| *count > 0).map(|(sign, word, count)| {
        let times = match count {
            1 => String::new(),
            count => format!(" {count} times"),
        };
        format!("<span class=\"why {word}\"><b aria-hidden=\"true\">{sign}</b> {word}{times}</span>")
    });
    words.collect::<Vec<_>>().join(" ")
}
