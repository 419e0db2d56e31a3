//! `--svg`: files one above the other in a picture that needs nothing but itself: no script, no font, nothing to fetch.
//!
//! Its size is bounded as the layout is. Every text goes through `xml::escape`; names are shortened by their width in a
//! font whose characters are all of one width, so that none runs into another.

mod bands;
mod file;
mod legend;
mod rows;
mod style;
mod xml;

pub(crate) use file::{check, save};

use super::sharing::Told;
use pleach::extents::picture::{Layout, label, shorten, ticks};
use pleach::util::text::{counted, size};
use std::fmt::Write as _;
use xml::escape;

/// Files drawn at most, and bands.
pub(crate) const ROWS: usize = 100;
pub(crate) const BANDS: usize = 2000;
/// Exact ranges of a row at most; a row with more is drawn by columns.
pub(crate) const SPANS: usize = 300;
/// A cell is as wide as one unit of the picture.
pub(crate) const CELLS: usize = 920;

const WIDTH: usize = 1200;
/// Where names, bars begin.
const MARGIN: usize = 28;
const LEFT: usize = 240;
/// Characters of a name that fit before the bar.
const NAME: usize = 28;

/// Where the rows stand.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    top: f64,
    bar: f64,
    pitch: f64,
    rows: usize,
    /// Room below the last row, for bands that end in the row they began in.
    tail: f64,
}

impl Geometry {
    fn of(layout: &Layout) -> Geometry {
        let (bar, gap): (f64, f64) = match layout.rows.len() {
            0..=8 => (34.0, 66.0),
            9..=20 => (26.0, 38.0),
            21..=40 => (22.0, 24.0),
            _ => (18.0, 14.0),
        };
        let gap = if layout.bands.is_empty() { gap.min(26.0) } else { gap };
        let last = layout.rows.len().saturating_sub(1);
        let tail = if layout.bands.iter().any(|band| band.rows == [last, last]) { gap } else { 0.0 };
        Geometry { top: 128.0, bar, pitch: bar + gap, rows: layout.rows.len(), tail }
    }

    fn row(&self, row: usize) -> f64 {
        self.top + self.pitch * row as f64
    }

    /// Where the last row ends.
    fn bottom(&self) -> f64 {
        self.row(self.rows.saturating_sub(1)) + self.bar + self.tail
    }
}

/// Where an offset stands, from the left.
fn x(offset: u64, longest: u64) -> f64 {
    LEFT as f64 + offset as f64 / longest as f64 * CELLS as f64
}

/// The picture.
pub(crate) fn render(told: &Told<'_>, layout: &Layout) -> String {
    let geometry = Geometry::of(layout);
    let legend = legend::entries(told, layout);
    let height = geometry.bottom() + 52.0 + legend::height(&legend);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" role=\"img\">\n{MARK}\n",
        MARK = file::MARK
    );
    let _ = writeln!(out, "<title>{}</title>", escape(&title(told, layout)));
    style::write(&mut out);
    let _ = writeln!(out, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height:.0}\"/>");
    head(told, layout, &mut out);
    axis(layout, &geometry, &mut out);
    bands::write(layout, &geometry, &mut out);
    rows::write(told, layout, &geometry, &mut out);
    legend::write(&legend, geometry.bottom() + 44.0, &mut out);
    out.push_str("</svg>\n");
    out
}

fn title(told: &Told<'_>, layout: &Layout) -> String {
    match (told.common(), layout.rows.len()) {
        (common, 1) => format!("{common}{}", told.name(0)),
        ("", rows) => counted(rows as u64, "file"),
        (common, _) => common.to_string(),
    }
}

fn head(told: &Told<'_>, layout: &Layout, out: &mut String) {
    let title = shorten(&title(told, layout), 100);
    let _ = writeln!(out, "<text class=\"title\" x=\"{MARGIN}\" y=\"44\">{}</text>", escape(&title));
    let mut words = match told.common() {
        "" => String::new(),
        _ => format!("{}, ", counted(layout.rows.len() as u64, "file")),
    };
    let bytes = layout.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.size));
    words += &size(bytes);
    let groups = told.sharing().groups.len();
    words += &match groups {
        0 => ", nothing shared among them".to_string(),
        _ => format!(", {} in {}", told.in_common(), counted(groups as u64, "group")),
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
