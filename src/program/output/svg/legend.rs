//! The legend: a line for each group, and one for all other classes that the picture shows.

use super::geometry::{LEFT, MARGIN};
use super::style;
use super::xml::escape;
use crate::extents::picture::{Class, GROUPS, Layout};
use crate::program::output::sharing::SharingReport;
use std::fmt::Write as _;

const LINE: f64 = 24.0;
/// Characters of names that fit into a line.
const NAMES: usize = 108;

pub(super) struct Entry {
    class: Class,
    words: String,
    names: String,
}

/// The entries of the legend.
pub(super) fn entries(report: &SharingReport<'_>, layout: &Layout) -> Vec<Entry> {
    let groups = report.sharing().groups.iter().enumerate().take(GROUPS);
    let mut entries: Vec<_> = groups
        .filter(|(n, _)| layout.shows(Class::of_group(*n)))
        .map(|(n, group)| Entry {
            class: Class::of_group(n),
            words: report.size_of(group),
            names: report.members(group, NAMES),
        })
        .collect();
    if let Some(words) = report.others().filter(|_| layout.shows(Class::OtherGroup)) {
        entries.push(Entry { class: Class::OtherGroup, words, names: String::new() });
    }
    for (class, words) in [
        (Class::Data, "held by no other of these files"),
        (Class::Unwritten, "allocated, never written"),
        (Class::Inline, "inline, beside the metadata"),
        (Class::Unplaced, "not yet on the disk"),
        (Class::Hole, "hole"),
    ] {
        if layout.shows(class) {
            entries.push(Entry { class, words: words.into(), names: String::new() });
        }
    }
    entries
}

fn is_group(entry: &Entry) -> bool {
    matches!(entry.class, Class::Group(_) | Class::OtherGroup)
}

pub(super) fn height(entries: &[Entry]) -> f64 {
    let groups = entries.iter().filter(|entry| is_group(entry)).count();
    let others = usize::from(groups < entries.len());
    (groups + others) as f64 * LINE + 12.0
}

pub(super) fn write(entries: &[Entry], top: f64, out: &mut String) {
    out.push_str("<g>\n");
    let mut y = top;
    let (groups, others): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| is_group(entry));
    for entry in groups {
        swatch(entry, MARGIN as f64, y, out);
        let _ = write!(out, "<text x=\"{}\" y=\"{:.1}\">{}</text>", MARGIN + 30, y + 11.5, escape(&entry.words));
        let _ = writeln!(
            out,
            "<text class=\"mono\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT + 60,
            y + 11.5,
            escape(&entry.names)
        );
        y += LINE;
    }
    let mut x = MARGIN as f64;
    for entry in others {
        swatch(entry, x, y, out);
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 30.0, y + 11.5, escape(&entry.words));
        // A generous width for a character of the widest font in the list.
        x += 30.0 + entry.words.len() as f64 * 7.4 + 24.0;
    }
    out.push_str("</g>\n");
}

fn swatch(entry: &Entry, x: f64, y: f64, out: &mut String) {
    let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"22\" height=\"15\"");
    let class = style::class(entry.class);
    let _ = writeln!(out, "<rect class=\"{class}\" {place}/><rect class=\"frame\" {place}/>");
    if let Class::Group(group) = entry.class {
        style::letter(group, x + 11.0, y + 7.5, out);
    }
}
