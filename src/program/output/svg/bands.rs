//! The ribbons between rows. They are drawn first, so they pass behind the rows between their ends.

use super::geometry::{Geometry, LEFT};
use super::style;
use crate::extents::picture::{Band, Layout};
use std::fmt::Write as _;

pub(super) fn write(layout: &Layout, geometry: &Geometry, out: &mut String) {
    if layout.bands.is_empty() {
        return;
    }
    out.push_str("<g>\n");
    for band in &layout.bands {
        let class = style::class(band.class);
        let _ = writeln!(out, "<path class=\"band {class}\" d=\"{}\"/>", path(band, geometry));
    }
    out.push_str("</g>\n");
}

/// A band from the lower edge of the upper row to the upper edge of the lower row; within one row, a bow below it.
fn path(band: &Band, geometry: &Geometry) -> String {
    let [upper, lower] = band.rows;
    let [a, b] = band.starts.map(|start| LEFT as f64 + start);
    let width = band.width.max(1.0);
    let (a_end, b_end) = (a + width, b + width);
    let top = geometry.row(upper) + geometry.bar;
    if upper == lower {
        let gap = geometry.pitch - geometry.bar;
        let (outer, inner) = (top + gap, top + gap * 0.35);
        return format!(
            "M{a:.1} {top:.1}C{a:.1} {outer:.1} {b_end:.1} {outer:.1} {b_end:.1} {top:.1}\
             H{b:.1}C{b:.1} {inner:.1} {a_end:.1} {inner:.1} {a_end:.1} {top:.1}Z"
        );
    }
    let bottom = geometry.row(lower);
    // When rows lie between, the curve stays within the gap below the upper row and the gap above the lower one.
    let reach = ((bottom - top) / 2.0).min(geometry.pitch);
    let (down, up) = (top + reach, bottom - reach);
    format!(
        "M{a:.1} {top:.1}C{a:.1} {down:.1} {b:.1} {up:.1} {b:.1} {bottom:.1}\
         H{b_end:.1}C{b_end:.1} {up:.1} {a_end:.1} {down:.1} {a_end:.1} {top:.1}Z"
    )
}
