//! The top of the page: whether all is well, and the most important figures.

use super::html::{bounded, bytes, counted, day, moment, text};
use super::problems;
use crate::snapshot::report::{Row, Stats};
use crate::util::text::counted as plain;
use std::fmt::Write as _;

pub(super) fn write(stats: &Stats, out: &mut String) {
    out.push_str("<section id=\"overview\" aria-label=\"Overview\">\n");
    status(stats, out);
    out.push_str("<dl class=\"cards\">\n");
    let mut card = |title: &str, value: String, more: String| {
        let _ = writeln!(
            out,
            "<div><dt>{}</dt><dd><strong>{value}</strong><span class=\"more\">{more}</span></dd></div>",
            text(title)
        );
    };
    if let (Some(oldest), Some(newest)) = (stats.snapshots.first(), stats.snapshots.last()) {
        let days = format!("{} to {}", day(oldest.local), day(newest.local));
        let groups = stats.groups.len() as u64;
        let more = if groups > 1 { format!("{days}, {}", counted(groups, "group")) } else { days };
        card("Snapshots", text(&crate::util::text::count(stats.snapshots.len() as u64)), more);
        card("Newest snapshot", bytes(newest.bytes), counted(newest.files, "file"));
        let recent = recent(stats);
        let added = recent.iter().filter_map(|row| row.added.as_ref());
        let sum =
            added.fold(0_u64, |sum, added| sum.saturating_add(added.data_bytes).saturating_add(added.metadata_bytes));
        let title = match recent.len() {
            1 => "Added by the last one".to_string(),
            last => format!("Added by the last {last}"),
        };
        card(&title, bytes(sum), "on the disk, data and metadata".into());
    }
    if let Some(pruning) = &stats.pruning {
        let title = if pruning.is_given { "Pruning would free" } else { "Keeping only the newest would free" };
        let more = format!("removing {}", counted(pruning.removed, "snapshot"));
        card(title, bounded(pruning.freed.bytes, pruning.freed.bound), more);
    }
    if let Some(space) = stats.space {
        let used = space.total_bytes.saturating_sub(space.free_bytes);
        let meter = format!(
            "of {} <meter min=\"0\" max=\"{}\" value=\"{used}\" aria-label=\"Used part of the disk\"></meter>",
            bytes(space.total_bytes),
            space.total_bytes.max(1)
        );
        card("Free on the disk", bytes(space.free_bytes), meter);
    }
    out.push_str("</dl>\n</section>\n");
}

/// The newest snapshots, a week of nights.
fn recent(stats: &Stats) -> &[Row] {
    &stats.snapshots[stats.snapshots.len().saturating_sub(7)..]
}

/// How good something is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Bad,
    Note,
    Good,
}

/// Sentences on the state, the worst first: each with a sign and a word, so that no colour is needed.
fn status(stats: &Stats, out: &mut String) {
    let mut lines: Vec<(State, String)> = Vec::new();
    let mut line = |state: State, sentence: &str| lines.push((state, sentence.to_string()));
    match stats.snapshots.last() {
        None => line(State::Note, "There are no snapshots yet."),
        Some(newest) => {
            let what = format!("The newest snapshot is of {}", moment(newest.local));
            let age = age(stats.created.seconds.saturating_sub(newest.created.seconds));
            match newest.errors {
                0 => line(State::Good, &format!("{what}, {age}. It is complete.")),
                errors => {
                    let skipped = plain(errors, "problem");
                    line(State::Bad, &format!("{what}, {age}. Its run had <a href=\"#problems\">{skipped}</a>."));
                }
            }
        }
    }
    if !stats.unlisted.is_empty() {
        let damaged = plain(stats.unlisted.len() as u64, "snapshot");
        line(State::Bad, &format!("The manifest of {damaged} cannot be read: see <a href=\"#problems\">problems</a>."));
    }
    let older = stats.snapshots.iter().rev().skip(1).filter(|row| row.errors > 0).count() as u64;
    if older > 0 {
        let runs = plain(older, "earlier run");
        line(State::Note, &format!("{runs} had <a href=\"#problems\">problems</a>."));
    }
    match &stats.verification {
        None if stats.snapshots.is_empty() => {}
        None => line(State::Note, "No verification is recorded. <code>pleach verify</code> checks the data."),
        Some(verified) => {
            let is_good = verified.damaged <= verified.repaired && verified.errors == 0;
            line(if is_good { State::Good } else { State::Bad }, &text(&problems::sentence(stats, verified)));
        }
    }
    lines.sort_by_key(|(state, _)| *state);
    out.push_str("<ul class=\"status\">\n");
    for (state, sentence) in lines {
        let (class, sign, word) = match state {
            State::Good => ("good", "✓", "Good:"),
            State::Note => ("note", "i", "Note:"),
            State::Bad => ("bad", "!", "Attention:"),
        };
        let _ = writeln!(
            out,
            "<li class=\"{class}\"><span class=\"sign\" aria-hidden=\"true\">{sign}</span>\
             <span><span class=\"unseen\">{word} </span>{sentence}</span></li>"
        );
    }
    out.push_str("</ul>\n");
}

/// How long ago something was, in words.
fn age(seconds: i64) -> String {
    let ago = |number: i64, noun: &str| format!("{} ago", plain(number.unsigned_abs(), noun));
    match seconds {
        ..0 => "in the future".into(),
        0..120 => "just now".into(),
        120..7200 => ago(seconds / 60, "minute"),
        7200..172_800 => ago(seconds / 3600, "hour"),
        _ => ago(seconds / 86_400, "day"),
    }
}
