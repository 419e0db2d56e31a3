//! The rows: name, size, and the bar with the ranges of the file.

use super::geometry::{CELLS, Geometry, LEFT, MARGIN, NAME, x};
use super::style;
use super::xml::escape;
use crate::extents::picture::{Class, Layout, Row, Span, label, shorten};
use crate::program::output::sharing::{SharingReport, name_of};
use crate::util::text::size;
use std::fmt::Write as _;

/// The width that a letter needs.
const LETTER: f64 = 15.0;

pub(super) fn write(report: &SharingReport<'_>, layout: &Layout, geometry: &Geometry, out: &mut String) {
    for (n, row) in layout.rows.iter().enumerate() {
        let y = geometry.row(n);
        let middle = y + geometry.bar / 2.0;
        let name = escape(&shorten(report.name(n), NAME));
        let path = escape(&crate::util::text::path(&row.path));
        let _ = writeln!(
            out,
            "<g>\n<text class=\"mono\" x=\"{MARGIN}\" y=\"{:.1}\">{name}<title>{path}</title></text>",
            middle - 1.0
        );
        let _ =
            writeln!(out, "<text class=\"dim\" x=\"{MARGIN}\" y=\"{:.1}\">{}</text>", middle + 13.0, size(row.size));
        let end = row.cells.last().map_or(0, |cell| cell.end);
        let width = (x(end, layout.longest) - LEFT as f64).max(1.0);
        let place = format!("x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\"", geometry.bar);
        // Bands that pass behind a row must not show through.
        let _ = writeln!(out, "<rect class=\"track\" {place}><title>{path}</title></rect>");
        match &row.spans {
            Some(spans) => exactly(report, n, spans, layout, geometry, out),
            None => summed_up(report, n, row, geometry, out),
        }
        let _ = writeln!(out, "<rect class=\"frame\" {place}/>\n</g>");
    }
}

fn exactly(
    report: &SharingReport<'_>,
    n: usize,
    spans: &[Span],
    layout: &Layout,
    geometry: &Geometry,
    out: &mut String,
) {
    let y = geometry.row(n);
    let mut letters = String::new();
    for span in spans {
        let start = x(span.start, layout.longest);
        // Every range must be visible, however small it is.
        let width = (x(span.end, layout.longest) - start).max(if span.class == Class::Hole { 0.0 } else { 1.0 });
        let words = format!(
            "{}: {} at {}\n{}",
            report.name(n),
            size(span.end - span.start),
            label(span.start),
            meaning(report, span.class)
        );
        let _ = writeln!(
            out,
            "<rect class=\"{}\" x=\"{start:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{:.1}\">\
             <title>{}</title></rect>",
            style::class(span.class),
            geometry.bar,
            escape(&words)
        );
        if let (Class::Group(group), true) = (span.class, width >= LETTER) {
            style::letter(group, start + width / 2.0, y + geometry.bar / 2.0, &mut letters);
        }
    }
    *out += &letters;
}

/// A row with too many ranges: heights in each column show the share of each class.
fn summed_up(report: &SharingReport<'_>, n: usize, row: &Row, geometry: &Geometry, out: &mut String) {
    let bottom = geometry.row(n) + geometry.bar;
    // The filled height of each column.
    let mut filled = vec![0.0; row.cells.len()];
    for class in Class::all().filter(|class| *class != Class::Hole) {
        let mut path = String::new();
        let mut total: u64 = 0;
        for (column, (cell, filled)) in row.cells.iter().zip(&mut filled).enumerate() {
            let bytes = cell.bytes(class);
            if bytes > 0 {
                let height = bytes as f64 / (cell.end - cell.start).max(1) as f64 * geometry.bar;
                let _ = write!(path, "M{} {:.1}v-{height:.1}h1v{height:.1}z", LEFT + column, bottom - *filled);
                *filled += height;
            }
            total = total.saturating_add(bytes);
        }
        if total > 0 {
            let words = format!("{}: {}\n{}", report.name(n), size(total), meaning(report, class));
            let class = style::class(class);
            let _ = writeln!(
                out,
                "<path class=\"{class}\" shape-rendering=\"crispEdges\" d=\"{path}\"><title>{}</title></path>",
                escape(&words)
            );
        }
    }
    let mains: Vec<_> =
        row.cells.iter().enumerate().filter_map(|(column, cell)| Some((column, cell.main()?.0))).collect();
    for run in mains.chunk_by(|a, b| a.1 == b.1) {
        if let (Class::Group(group), true) = (run[0].1, run.len() as f64 >= LETTER) {
            let middle = (LEFT + run[0].0) as f64 + run.len() as f64 / 2.0;
            // Columns are filled from below.
            style::letter(group, middle, bottom - geometry.bar / 4.0, out);
        }
    }
}

fn meaning(report: &SharingReport<'_>, class: Class) -> String {
    match class {
        Class::Group(group) => {
            let group = usize::from(group);
            let members = report.sharing().groups.get(group).map(|group| report.members(group, 160));
            format!("{}: shared in {}", name_of(group), members.unwrap_or_default())
        }
        Class::OtherGroup => "shared in a smaller group".into(),
        Class::Data => "data that no other of these files holds".into(),
        Class::Unwritten => "allocated, never written".into(),
        Class::Inline => "inline, beside the metadata".into(),
        Class::Unplaced => "not yet on the disk, or at a place unknown".into(),
        Class::Hole => "hole".into(),
    }
}

const _: () = assert!(LEFT + CELLS < super::WIDTH);
