//! The calendar: a small table for each month, with a cell for each day. A cell shows what the snapshots of the day
//! added, as a figure and as a shade.

use super::html::{bytes, counted, moment, short, text};
use crate::extents::picture::label;
use crate::snapshot::report::{Group, Local, Row, Stats};
use crate::util::text::{counted as plain, size};
use jiff::civil::{Date, date};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many months are shown at once. Older ones are behind a click.
const SHOWN: usize = 6;
/// The number of shades.
const SHADES: u64 = 5;
/// The second shade begins here or above: less than a block is next to nothing.
const SMALLEST: u64 = 4 << 10;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [(&str, &str); 7] = [
    ("Mo", "Monday"),
    ("Tu", "Tuesday"),
    ("We", "Wednesday"),
    ("Th", "Thursday"),
    ("Fr", "Friday"),
    ("Sa", "Saturday"),
    ("Su", "Sunday"),
];

/// The snapshots of each day, by year, month and day.
type Days = BTreeMap<(i16, i8), Month>;
/// The snapshots of each day of a month.
type Month = BTreeMap<i8, Vec<usize>>;

pub(super) fn write(stats: &Stats, group: &Group, out: &mut String) {
    let mut months = Days::new();
    for number in &group.snapshots {
        let local = stats.snapshots[*number].local;
        months.entry((local.year, local.month)).or_default().entry(local.day).or_default().push(*number);
    }
    let top = top(stats, group);
    let first_night = group.snapshots.first().map_or(stats.local, |first| stats.snapshots[*first].local);
    let scale = (first_night, top);
    legend(stats, group, top, out);
    let older = months.len().saturating_sub(SHOWN);
    // The newest month is the first that a reader wants to see.
    let newest: Vec<_> = months.iter().rev().collect();
    out.push_str("<div class=\"months\">\n");
    newest.iter().take(SHOWN).for_each(|((year, month), days)| one(stats, scale, (*year, *month), days, out));
    out.push_str("</div>\n");
    if older > 0 {
        let _ = writeln!(
            out,
            "<details><summary>{}</summary>\n<div class=\"months\">",
            counted(older as u64, "older month")
        );
        newest.iter().skip(SHOWN).for_each(|((year, month), days)| one(stats, scale, (*year, *month), days, out));
        out.push_str("</div>\n</details>\n");
    }
}

/// What the snapshots of a day added, if it is known of all.
fn added(rows: &[&Row]) -> Option<u64> {
    let added = |row: &&Row| row.added.map(|added| added.data_bytes.saturating_add(added.metadata_bytes));
    rows.iter().map(added).try_fold(0_u64, |sum, added| Some(sum.saturating_add(added?)))
}

/// The bytes from which on a day has the darkest shade: nine of ten snapshots added less.
fn top(stats: &Stats, group: &Group) -> u64 {
    let mut all: Vec<u64> = group
        .snapshots
        .iter()
        .filter_map(|number| added(&[&stats.snapshots[*number]]))
        .filter(|bytes| *bytes > 0)
        .collect();
    all.sort_unstable();
    let at = (all.len() * 9).div_ceil(10).saturating_sub(1);
    let least = SMALLEST << (2 * (SHADES - 2));
    all.get(at).map_or(0, |bytes| (bytes.checked_next_power_of_two().unwrap_or(*bytes) / 2).max(least))
}

/// The shade of a day: 0 if nothing was added. Each shade begins at four times the bytes of the one before.
fn shade(bytes: u64, top: u64) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let below = (1..SHADES).find(|step| bytes >= top >> (2 * (step - 1))).unwrap_or(SHADES);
    SHADES + 1 - below
}

fn legend(stats: &Stats, group: &Group, top: u64, out: &mut String) {
    let rows: Vec<&Row> = group.snapshots.iter().map(|number| &stats.snapshots[*number]).collect();
    out.push_str("<ul class=\"legend\" aria-label=\"Legend\">\n<li><span class=\"key s0\"></span>added nothing</li>\n");
    if top > 0 {
        for step in 1..=SHADES {
            let from = |step: u64| top >> (2 * (SHADES - step));
            let words = match step {
                1 => format!("less than {}", label(from(2))),
                SHADES => format!("{} or more", label(from(SHADES))),
                _ => format!("from {}", label(from(step))),
            };
            let _ = writeln!(out, "<li><span class=\"key s{step}\"></span>{}</li>", text(&words));
        }
    }
    if rows.iter().any(|row| row.added.is_none()) {
        out.push_str("<li><span class=\"key sx\">?</span>not known</li>\n");
    }
    if rows.iter().any(|row| row.errors > 0) {
        out.push_str("<li><span class=\"mark bad\">!</span>had problems</li>\n");
    }
    if rows.iter().any(|row| row.pinned) {
        out.push_str("<li><span class=\"mark\">★</span>pinned</li>\n");
    }
    if is_pruned(stats) && rows.iter().any(|row| is_going(row)) {
        out.push_str("<li><span class=\"mark\">−</span>pruning would remove it</li>\n");
    }
    out.push_str("</ul>\n");
}

/// Whether the report has the rules of a prune.
fn is_pruned(stats: &Stats) -> bool {
    stats.pruning.as_ref().is_some_and(|pruning| pruning.is_given)
}

fn is_going(row: &Row) -> bool {
    row.kept.as_ref().is_some_and(Vec::is_empty)
}

fn one(stats: &Stats, (first_night, top): (Local, u64), (year, month): (i16, i8), days: &Month, out: &mut String) {
    let name = usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"");
    let _ = write!(out, "<table class=\"month\"><caption>{name} {year}</caption><thead><tr>");
    for (short, long) in DAYS {
        let _ = write!(out, "<th scope=\"col\" abbr=\"{long}\">{short}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    let Ok(first) = Date::new(year, month, 1) else { return };
    let before = i64::from(first.weekday().to_monday_zero_offset());
    let last = i64::from(first.days_in_month());
    let on = |local: Local| date(local.year, local.month.max(1), local.day.max(1));
    let (begin, today) = (on(first_night), on(stats.local));
    for week in 0..(before + last + 6) / 7 {
        out.push_str("<tr>");
        for weekday in 0..7 {
            let day = week * 7 + weekday - before + 1;
            match i8::try_from(day).ok().filter(|day| *day >= 1 && i64::from(*day) <= last) {
                None => out.push_str("<td></td>"),
                Some(day) => match days.get(&day) {
                    Some(rows) => cell(stats, day, rows, top, out),
                    None => {
                        let is_outside = Date::new(year, month, day).is_ok_and(|date| date > today || date < begin);
                        let class = if is_outside { "none outside" } else { "none" };
                        let _ = write!(out, "<td class=\"{class}\">{day}</td>");
                    }
                },
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
}

fn cell(stats: &Stats, day: i8, numbers: &[usize], top: u64, out: &mut String) {
    let rows: Vec<&Row> = numbers.iter().map(|number| &stats.snapshots[*number]).collect();
    let (class, shown) = match added(&rows) {
        Some(bytes) => (format!("s{}", shade(bytes, top)), short(bytes)),
        None => ("sx".into(), "?".into()),
    };
    let mut marks = String::new();
    if rows.len() > 1 {
        let _ = write!(marks, "<span class=\"mark\">×{}</span>", rows.len());
    }
    if rows.iter().any(|row| row.errors > 0) {
        marks += "<span class=\"mark bad\">!</span>";
    }
    if rows.iter().any(|row| row.pinned) {
        marks += "<span class=\"mark\">★</span>";
    }
    if is_pruned(stats) && rows.iter().all(|row| is_going(row)) {
        marks += "<span class=\"mark\">−</span>";
    }
    let title: Vec<String> = rows.iter().map(|row| words(row)).collect();
    let title = text(&title.join("\n"));
    let target = numbers.last().copied().unwrap_or_default();
    let _ = write!(
        out,
        "<td><a class=\"{class}\" href=\"#s{target}\" title=\"{title}\" aria-label=\"{title}\"><b>{day}</b>\
         <span class=\"added\">{shown}</span><span class=\"marks\">{marks}</span></a></td>"
    );
}

/// A snapshot in one line.
fn words(row: &Row) -> String {
    let mut words = moment(row.local);
    if !row.name.starts_with(&words[..10]) {
        let _ = write!(words, ", {}", row.name);
    }
    match row.added {
        Some(added) => {
            let _ = write!(words, ": added {}", size(added.data_bytes.saturating_add(added.metadata_bytes)));
        }
        None => words += ": added an unknown amount",
    }
    if row.errors > 0 {
        let _ = write!(words, ", {}", plain(row.errors, "problem"));
    }
    if row.pinned {
        words += ", pinned";
    }
    words
}

/// What all snapshots of a group added, in words.
pub(super) fn sum(stats: &Stats, group: &Group) -> String {
    let rows: Vec<&Row> = group.snapshots.iter().map(|number| &stats.snapshots[*number]).collect();
    let known = rows.iter().filter_map(|row| added(&[row])).fold(0, u64::saturating_add);
    bytes(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_grow_by_four() {
        let top = 1024;
        let shades = [0, 1, 3, 4, 15, 16, 64, 255, 256, 1023, 1024, u64::MAX].map(|bytes| shade(bytes, top));
        assert_eq!(shades, [0, 1, 1, 1, 1, 2, 3, 3, 4, 4, 5, 5]);
    }
}
