//! Growth: a bar for what each snapshot added on the disk, and a line for the size of its files. The pictures stretch
//! with the page; their labels are beside them and do not.

use super::html::{bytes, day, moment, text};
use crate::snapshot::report::{Group, Row, Stats};
use crate::util::text::size;
use std::fmt::Write as _;

/// The width of a bar with its gap, and the height of a picture, in its own units.
const SLOT: usize = 10;
const HEIGHT: f64 = 100.0;
/// A picture has room for at least this many bars, so that a few do not become wide.
const SLOTS: usize = 14;
/// A bar is cut if it is this many times as high as the second highest.
const EXCESS: u64 = 4;

pub(super) fn write(stats: &Stats, group: &Group, out: &mut String) {
    let rows: Vec<&Row> = group.snapshots.iter().map(|number| &stats.snapshots[*number]).collect();
    out.push_str("<div class=\"charts\">\n");
    bars(&rows, out);
    sizes(&rows, out);
    out.push_str("</div>\n");
}

/// The data and the metadata that a snapshot added.
fn parts(row: &Row) -> [u64; 2] {
    row.added.map_or([0, 0], |added| [added.data_bytes, added.metadata_bytes])
}

fn total(row: &Row) -> u64 {
    parts(row).into_iter().fold(0, u64::saturating_add)
}

fn bars(rows: &[&Row], out: &mut String) {
    let mut totals: Vec<u64> = rows.iter().map(|row| total(row)).collect();
    totals.sort_unstable_by(|a, b| b.cmp(a));
    let (highest, second) = (totals[0], totals.get(1).copied().unwrap_or(0));
    let is_cut = second > 0 && highest / EXCESS > second;
    let top = if is_cut { second.saturating_mul(3) / 2 } else { highest }.max(1);
    let mut shapes = String::new();
    for (number, row) in rows.iter().enumerate() {
        let x = number * SLOT + 1;
        let mut y = HEIGHT;
        shapes.push_str("<g>");
        let _ = write!(shapes, "<title>{}</title>", text(&words(row)));
        let _ = write!(shapes, "<rect class=\"hit\" x=\"{}\" y=\"0\" width=\"{SLOT}\" height=\"100\"/>", number * SLOT);
        for (part, class) in parts(row).into_iter().zip(["data", "metadata"]) {
            let height = (part as f64 / top as f64 * HEIGHT).min(y);
            // Every part must be visible, however small it is.
            let height = if part > 0 { height.max(0.6).min(y) } else { 0.0 };
            y -= height;
            if height > 0.0 {
                let _ = write!(
                    shapes,
                    "<rect class=\"{class}\" x=\"{x}\" y=\"{y:.2}\" width=\"{}\" height=\"{height:.2}\"/>",
                    SLOT - 2
                );
            }
        }
        if total(row) > top {
            let _ = write!(shapes, "<rect class=\"cut\" x=\"{x}\" y=\"6\" width=\"{}\" height=\"4\"/>", SLOT - 2);
        }
        shapes.push_str("</g>\n");
    }
    let mut caption = "What each snapshot added on the disk: \
                       <span class=\"key data\"></span>data, <span class=\"key metadata\"></span>metadata."
        .to_string();
    if let Some(row) = rows.iter().find(|row| total(row) > top) {
        let _ = write!(caption, " The bar of {} is cut: it added {}.", day(row.local), bytes(total(row)));
    }
    let unknown = rows.iter().filter(|row| row.added.is_none()).count();
    if unknown > 0 {
        let _ = write!(caption, " It is not known for {unknown} of them.");
    }
    chart(&caption, "Bars: what each snapshot added on the disk", top, rows, &shapes, out);
}

fn sizes(rows: &[&Row], out: &mut String) {
    let top = rows.iter().map(|row| row.bytes).max().unwrap_or(0).max(1);
    let y = |bytes: u64| HEIGHT - bytes as f64 / top as f64 * HEIGHT * 0.96;
    let mut line = String::new();
    for (number, row) in rows.iter().enumerate() {
        // A step for each snapshot: between two of them nothing is known.
        let (from, to) = (number * SLOT, (number + 1) * SLOT);
        let _ = write!(line, "{}{from} {:.2}H{to}", if number == 0 { "M" } else { "L" }, y(row.bytes));
    }
    let end = rows.len() * SLOT;
    let mut shapes = format!("<path class=\"area\" d=\"{line}V100H0Z\"/>\n<path class=\"line\" d=\"{line}\"/>\n");
    let _ = write!(shapes, "<path class=\"base\" d=\"M0 100H{end}\"/>");
    for (number, row) in rows.iter().enumerate() {
        let title = text(&format!("{}: {} in its files", moment(row.local), size(row.bytes)));
        let x = number * SLOT;
        let _ = writeln!(
            shapes,
            "<rect class=\"hit\" x=\"{x}\" y=\"0\" width=\"{SLOT}\" height=\"100\"><title>{title}</title></rect>"
        );
    }
    let caption = match (rows.first(), rows.last()) {
        (Some(first), Some(last)) if rows.len() > 1 => {
            format!("The size of the files in each snapshot: from {} to {}.", bytes(first.bytes), bytes(last.bytes))
        }
        _ => "The size of the files in each snapshot.".into(),
    };
    chart(&caption, "Line: the size of the files in each snapshot", top, rows, &shapes, out);
}

fn words(row: &Row) -> String {
    match row.added {
        None => format!("{}: not known", moment(row.local)),
        Some(added) => format!(
            "{}: {} of data, {} of metadata",
            moment(row.local),
            size(added.data_bytes),
            size(added.metadata_bytes)
        ),
    }
}

/// A picture with its scales. `top`: the bytes at its upper edge.
fn chart(caption: &str, label: &str, top: u64, rows: &[&Row], shapes: &str, out: &mut String) {
    let slots = rows.len().max(SLOTS);
    let width = slots * SLOT;
    let _ = write!(
        out,
        "<figure class=\"chart\">\n<figcaption>{caption}</figcaption>\n<div class=\"plot\">\n\
         <div class=\"y\" aria-hidden=\"true\"><span>{}</span><span>{}</span><span>0</span></div>\n\
         <svg viewBox=\"0 0 {width} 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\n\
         <path class=\"grid\" d=\"M0 0H{width}M0 50H{width}M0 100H{width}\"/>\n{shapes}</svg>\n\
         <div class=\"x\" aria-hidden=\"true\">",
        bytes(top),
        bytes(top / 2),
        text(label)
    );
    let last = rows.len().saturating_sub(1);
    let mut marks = vec![0, last / 2, last];
    marks.dedup();
    if slots < 3 * rows.len() / 2 || rows.len() >= SLOTS {
        for number in marks {
            let percent = (number * SLOT + SLOT / 2) as f64 / width as f64 * 100.0;
            let class = if number == 0 {
                "first"
            } else if number == last {
                "last"
            } else {
                "middle"
            };
            let _ =
                write!(out, "<span class=\"{class}\" style=\"left:{percent:.1}%\">{}</span>", day(rows[number].local));
        }
    } else if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        let range = match rows.len() {
            1 => day(first.local),
            _ => format!("{} to {}", day(first.local), day(last.local)),
        };
        let _ = write!(out, "<span class=\"first\" style=\"left:0\">{range}</span>");
    }
    out.push_str("</div>\n</div>\n</figure>\n");
}
