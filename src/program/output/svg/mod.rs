//! `--svg`: files one above the other in a self-contained picture: no script, no font, nothing to fetch.
//!
//! Its size is bounded by the layout. Every text goes through `xml::escape`. Names are shortened by their width in a
//! monospaced font, so they never overlap.

mod bands;
mod geometry;
mod legend;
mod rows;
mod style;
mod xml;

pub(crate) use geometry::{BANDS, CELLS, ROWS, SPANS};

use super::own_file::OwnFile;
use super::sharing::SharingReport;
use crate::error::Result;
use crate::extents::picture::{Layout, label, shorten, ticks};
use crate::util::text::{counted, size};
use geometry::{Geometry, MARGIN, WIDTH, x};
use std::fmt::Write as _;
use std::path::Path;
pub(in crate::program::output) use xml::escape;

/// The second line of each picture. The next picture may replace a file that has it.
const MARK: &str = "<!-- Drawn by pleach fiemap, which replaces this file when it draws it again. -->";

/// The file of a picture.
const FILE: OwnFile = OwnFile { noun: "picture", verb: "draw", ending: ".svg.part", is_own: is_picture };

/// Whether a file with this beginning is a picture that pleach drew.
fn is_picture(begins: &[u8]) -> bool {
    let mut lines = begins.split(|byte| *byte == b'\n');
    lines.next().is_some_and(|first| first.starts_with(b"<svg ")) && lines.next() == Some(MARK.as_bytes())
}

/// Refuses a path where no picture can be written, before any work is done.
///
/// # Errors
/// If something else is there, or the directory does not exist.
pub(crate) fn check(path: &Path) -> Result<()> {
    FILE.check(path)
}

/// Writes a picture to a file.
///
/// # Errors
/// Like [`check`], or if the picture cannot be written; the previous file stays.
pub(crate) fn save(path: &Path, picture: &str) -> Result<()> {
    FILE.save(path, picture)
}

/// The picture, as a file of its own.
pub(crate) fn render(report: &SharingReport<'_>, layout: &Layout) -> String {
    let style = format!("<style>\n{}</style>\n<defs>\n{}</defs>\n", style::rules(""), style::patterns());
    picture(report, layout, &format!("{MARK}\n"), &style)
}

/// The picture as a part of a page that has [`style`] once.
pub(in crate::program::output) fn inline(report: &SharingReport<'_>, layout: &Layout) -> String {
    picture(report, layout, "", "")
}

/// The style of pictures in a page, for those in elements that `scope` selects, and the patterns that they use.
pub(in crate::program::output) fn style(scope: &str) -> (String, String) {
    (style::rules(scope), style::patterns())
}

fn picture(report: &SharingReport<'_>, layout: &Layout, mark: &str, style: &str) -> String {
    let geometry = Geometry::of(layout, style.is_empty());
    let legend = legend::entries(report, layout);
    let height = geometry.bottom() + 52.0 + legend::height(&legend);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" role=\"img\">\n{mark}"
    );
    let _ = writeln!(out, "<title>{}</title>", escape(&title(report, layout)));
    out.push_str(style);
    let _ = writeln!(out, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height:.0}\"/>");
    head(report, layout, &mut out);
    axis(layout, &geometry, &mut out);
    bands::write(layout, &geometry, &mut out);
    rows::write(report, layout, &geometry, &mut out);
    legend::write(&legend, geometry.bottom() + 44.0, &mut out);
    out.push_str("</svg>\n");
    out
}

fn title(report: &SharingReport<'_>, layout: &Layout) -> String {
    match (report.common(), layout.rows.len()) {
        (common, 1) => format!("{common}{}", report.name(0)),
        ("", rows) if report.sharing().groups.is_empty() => counted(rows as u64, "file"),
        ("", rows) => format!("{}, and the data they share", counted(rows as u64, "file")),
        (common, _) => common.to_string(),
    }
}

fn head(report: &SharingReport<'_>, layout: &Layout, out: &mut String) {
    let title = shorten(&title(report, layout), 100);
    let _ = writeln!(out, "<text class=\"title\" x=\"{MARGIN}\" y=\"44\">{}</text>", escape(&title));
    let mut words = match report.common() {
        "" => String::new(),
        _ => format!("{}, ", counted(layout.rows.len() as u64, "file")),
    };
    let bytes = layout.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.size));
    words += &size(bytes);
    let groups = report.sharing().groups.len();
    words += &match groups {
        0 => ", nothing shared among them".to_string(),
        _ => format!(", {} in {}", report.in_common(), counted(groups as u64, "group")),
    };
    let left_out = [(layout.omitted_rows, "more file"), (layout.omitted_bands, "narrower band")];
    for (count, noun) in left_out.iter().filter(|(count, _)| *count > 0) {
        let _ = write!(words, "; {} not drawn", counted(*count as u64, noun));
    }
    let _ = writeln!(out, "<text class=\"sub\" x=\"{MARGIN}\" y=\"68\">{}</text>", escape(&words));
}

fn axis(layout: &Layout, geometry: &Geometry, out: &mut String) {
    out.push_str("<g class=\"axis\">\n");
    let (top, bottom) = (geometry.top - 12.0, geometry.bottom() + 6.0);
    for at in ticks(layout.longest, 6) {
        let x = x(at, layout.longest);
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {top:.0}V{bottom:.0}\"/><text x=\"{x:.1}\" y=\"{:.0}\">{}</text>",
            top - 8.0,
            label(at)
        );
    }
    out.push_str("</g>\n");
}

#[cfg(test)]
mod tests;
