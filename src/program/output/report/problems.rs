//! The problems of the last runs: of snapshots, of the last verification, and of the report itself.

use super::html::{counted, moment, section, text};
use crate::monitor::Note;
use crate::snapshot::report::{Problems, Row, Stats, Verification};
use crate::util::text::{count, counted as plain, size};
use std::fmt::Write as _;

/// How many runs with problems are shown: the newest.
const RUNS: usize = 20;

pub(super) fn write(stats: &Stats, out: &mut String) {
    *out += &section("problems", "Problems of the last runs");
    let rows: Vec<(usize, &Row)> = runs(stats).collect();
    let mut is_empty = rows.is_empty();
    let more = rows.len().saturating_sub(RUNS);
    for (number, row) in rows.into_iter().take(RUNS) {
        of_run(number, row, out);
    }
    if more > 0 {
        let _ = writeln!(
            out,
            "<p>{} with problems are in the table of snapshots only.</p>",
            counted(more as u64, "older run")
        );
    }
    if let Some(verified) = &stats.verification {
        of_verification(stats, verified, out);
        is_empty &= verified.damaged == 0 && verified.errors == 0;
    }
    if stats.errors > 0 {
        is_empty = false;
        let summary = format!("This report: {}", counted(stats.errors, "problem"));
        notes("report", &summary, stats.errors, &stats.problems, out);
    }
    if is_empty {
        out.push_str("<p>None: no run that made these snapshots reported a problem.</p>\n");
    }
    out.push_str("</section>\n");
}

/// The runs with problems, newest first.
fn runs(stats: &Stats) -> impl Iterator<Item = (usize, &Row)> {
    stats.snapshots.iter().enumerate().rev().filter(|(_, row)| has_any(row))
}

/// The id of the problems of a run, if they are shown.
pub(super) fn id_of(stats: &Stats, number: usize) -> Option<String> {
    runs(stats).take(RUNS).any(|(shown, _)| shown == number).then(|| id(number))
}

fn id(number: usize) -> String {
    format!("p{number}")
}

fn has_any(row: &Row) -> bool {
    row.errors > 0 || row.problems.as_ref().is_some_and(|problems| problems.count > 0)
}

fn of_run(number: usize, row: &Row, out: &mut String) {
    let unknown = Problems::default();
    let problems = row.problems.as_ref().unwrap_or(&unknown);
    let all = problems.count.max(row.errors);
    let name = format!("<code>{}</code>", text(&row.name));
    let summary = format!("Snapshot {name}, {}: {}", moment(row.local), counted(all, "problem"));
    notes(&id(number), &summary, all, &problems.first, out);
}

fn of_verification(stats: &Stats, verified: &Verification, out: &mut String) {
    let _ = writeln!(out, "<p>{}</p>", text(&sentence(stats, verified)));
    if verified.damaged > 0 {
        let summary = format!("Damage found: {}", entries(verified.damaged));
        notes("damage", &text(&summary), verified.damaged, &verified.first_damage, out);
    }
    if verified.errors > 0 {
        let summary = format!("Last verification: {}", counted(verified.errors, "problem"));
        notes("verification", &summary, verified.errors, &verified.first_problems, out);
    }
}

/// A list of notes, open unless it is long.
fn notes(id: &str, summary: &str, all: u64, notes: &[Note], out: &mut String) {
    let open = if notes.len() <= 10 { " open" } else { "" };
    let _ = writeln!(out, "<details class=\"notes\" id=\"{id}\"{open}><summary>{summary}</summary>\n<ul>");
    for note in notes {
        let _ = writeln!(
            out,
            "<li><span class=\"code\">{}</span> {}</li>",
            text(&note.code),
            super::html::breakable(&note.message)
        );
    }
    let rest = all.saturating_sub(notes.len() as u64);
    if rest > 0 {
        let words = if notes.is_empty() { "not recorded" } else { "more, not recorded" };
        let _ = writeln!(out, "<li class=\"rest\">{} {words}</li>", count(rest));
    }
    out.push_str("</ul>\n</details>\n");
}

/// The last verification in a few words.
pub(super) fn verified(stats: &Stats, verified: &Verification) -> String {
    let when = when(stats);
    match (verified.damaged, verified.errors) {
        (0, 0) => format!("{when}, no damage"),
        (0, errors) => format!("{when}, no damage; {}", plain(errors, "problem")),
        (damaged, _) => format!("{when}, {} damaged, {} repaired", count(damaged), count(verified.repaired)),
    }
}

/// The last verification in a sentence.
pub(super) fn sentence(stats: &Stats, verified: &Verification) -> String {
    let when = when(stats);
    let snapshots = plain(verified.snapshots, "snapshot");
    let what = if verified.is_all { format!("all {snapshots} of then") } else { snapshots };
    let how = match verified.percent {
        percent if percent >= 100.0 => format!("all content, {}", size(verified.checked_bytes)),
        percent if percent > 0.0 => format!("{percent} % of the content, {}", size(verified.checked_bytes)),
        _ => "status only, no content".into(),
    };
    let found = match (verified.damaged, verified.repaired, verified.errors) {
        (0, _, 0) => "No damage was found.".to_string(),
        (0, _, errors) => format!("No damage was found; {}.", plain(errors, "problem")),
        (damaged, 0, _) => format!("Damage was found in {}.", entries(damaged)),
        (damaged, repaired, _) => {
            format!("Damage was found in {}; {} were repaired.", entries(damaged), count(repaired))
        }
    };
    format!("The last verification was on {when}: {what}, {how}. {found}")
}

fn entries(number: u64) -> String {
    if number == 1 { "1 entry".into() } else { format!("{} entries", count(number)) }
}

/// When the verification was.
fn when(stats: &Stats) -> String {
    stats.verified.map(moment).unwrap_or_default()
}
