//! The table of all snapshots, newest first.

use super::html::{Table, bounded, bytes, counted, reasons, section, text, when};
use super::problems::id_of;
use crate::snapshot::report::{Row, Stats};
use crate::util::text::{count, path};
use std::fmt::Write as _;

/// How many snapshots are shown at once. Older ones are behind a click.
const SHOWN: usize = 30;

pub(super) fn write(stats: &Stats, out: &mut String) {
    *out += &section("snapshots", "Snapshots");
    let rows: Vec<(usize, &Row)> = stats.snapshots.iter().enumerate().rev().collect();
    if rows.is_empty() {
        out.push_str("<p>There are no snapshots yet. <code>pleach snapshot</code> takes one.</p>\n");
    } else {
        let (shown, older) = rows.split_at(rows.len().min(SHOWN));
        let caption = if older.is_empty() { "All snapshots, newest first" } else { "The newest snapshots" };
        *out += &table(stats, caption, shown);
        if !older.is_empty() {
            let _ = writeln!(
                out,
                "<details><summary>{}</summary>\n{}</details>",
                counted(older.len() as u64, "older snapshot"),
                table(stats, "Older snapshots", older)
            );
        }
    }
    out.push_str("</section>\n");
}

fn table(stats: &Stats, caption: &str, rows: &[(usize, &Row)]) -> String {
    let has = |is: &dyn Fn(&Row) -> bool| stats.snapshots.iter().any(is);
    let is_measured = has(&|row| row.freed.is_some());
    let is_pruned = stats.pruning.as_ref().is_some_and(|pruning| pruning.is_given);
    let has_groups = stats.groups.len() > 1;
    let mut titles = vec!["Snapshot", "Taken", "#Files", "#Size", "#Added data", "#Added metadata"];
    titles.extend(is_measured.then_some("#Frees alone"));
    titles.extend(is_pruned.then_some("Prune"));
    titles.extend(has_groups.then_some("Sources"));
    titles.extend(has(&|row| row.errors > 0).then_some("Problems"));
    let mut table = Table::new(caption, &titles);
    for (number, row) in rows {
        let added = |part: fn(&crate::snapshot::Added) -> u64| {
            row.added.as_ref().map_or("–".to_string(), |added| bytes(part(added)))
        };
        let mut cells = vec![
            name(row),
            when(row.local),
            count(row.files),
            bytes(row.bytes),
            added(|added| added.data_bytes),
            added(|added| added.metadata_bytes),
        ];
        if is_measured {
            cells.push(row.freed.map_or("–".into(), |freed| bounded(freed.bytes, freed.bound)));
        }
        if is_pruned {
            cells.push(match &row.kept {
                None => "–".into(),
                Some(kept) if kept.is_empty() => "<b>would be removed</b>".into(),
                Some(kept) => format!("kept: {}", text(&reasons(kept))),
            });
        }
        if has_groups {
            let sources = stats.groups.get(row.group).map_or(&[][..], |group| &group.sources);
            let sources: Vec<_> = sources.iter().map(|source| text(&path(source))).collect();
            cells.push(sources.join(" "));
        }
        if has(&|row| row.errors > 0) {
            cells.push(match row.errors {
                0 => "none".into(),
                errors => match id_of(stats, *number) {
                    Some(id) => format!("<a class=\"bad\" href=\"#{id}\">{}</a>", counted(errors, "problem")),
                    None => counted(errors, "problem"),
                },
            });
        }
        table.row(&format!(" id=\"s{number}\""), &cells);
    }
    table.finish()
}

/// The name, with tags and pin.
fn name(row: &Row) -> String {
    let mut name = format!("<code>{}</code>", text(&row.name));
    if row.pinned {
        name += " <span class=\"tag pin\">★ pinned</span>";
    }
    for tag in &row.tags {
        let _ = write!(name, " <span class=\"tag\">{}</span>", text(tag));
    }
    name
}
