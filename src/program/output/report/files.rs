//! The largest files: their versions, drawn one above the other with bands between shared ranges, and as a table.

use super::html::{Table, bounded, breakable, bytes, counted, section, text};
use crate::error::Result;
use crate::extents::picture;
use crate::monitor::Monitor;
use crate::program::output::sharing::SharingReport;
use crate::program::output::svg;
use crate::snapshot::report::{LargeFile, Stats};
use crate::util::text as words;
use std::fmt::Write as _;

/// The most exact ranges in a row: a page has several pictures.
const SPANS: usize = 150;

pub(super) fn write(stats: &Stats, monitor: &dyn Monitor, out: &mut String) -> Result<()> {
    *out += &section("files", "The largest files, and what their versions share");
    if stats.files.is_empty() {
        let why = if stats.snapshots.is_empty() { "There are none." } else { "They were not looked for." };
        let _ = writeln!(out, "<p>{}</p>", if stats.errors > 0 { "None could be read." } else { why });
    } else {
        out.push_str(
            "<p>Each row is a version of the file. Equal letters and colours are the same blocks on the disk, and \
             bands join them. Grey parts are held by no other version shown.</p>\n",
        );
    }
    for file in &stats.files {
        one(file, monitor, out)?;
    }
    out.push_str("</section>\n");
    Ok(())
}

fn one(file: &LargeFile, monitor: &dyn Monitor, out: &mut String) -> Result<()> {
    let name = breakable(&words::path(&file.path));
    let _ = writeln!(out, "<article>\n<h3><code class=\"path\">{name}</code></h3>");
    let shown = file.versions.len() as u64;
    let versions = match (file.all_versions, shown) {
        (all, shown) if all == shown => counted(all, "version"),
        (all, 0) => format!("{}, too fragmented to be drawn", counted(all, "version")),
        (all, shown) => format!("{}; the oldest and the newest {} are drawn", counted(all, "version"), shown - 1),
    };
    let _ = writeln!(out, "<p>{} in <code>{}</code>, {versions}.</p>", bytes(file.size), text(&file.snapshot));
    // Nothing to compare with.
    if file.versions.len() < 2 {
        out.push_str("</article>\n");
        return Ok(());
    }
    let options = picture::Options { cells: svg::CELLS, rows: svg::ROWS, spans: SPANS, bands: svg::BANDS };
    let layout = picture::lay_out(&file.sketch, &file.sharing, &options, monitor)?;
    let report = SharingReport::new(&file.sharing, &file.paths);
    let label = text(&format!("Picture of {}", words::path(&file.path)));
    let _ = write!(
        out,
        "<div class=\"sharing\" role=\"region\" tabindex=\"0\" aria-label=\"{label}\">\n{}</div>\n",
        svg::inline(&report, &layout)
    );
    let mut table = Table::new(
        "The versions, oldest first",
        &["First in", "Last in", "#Snapshots", "#Size", "#Shared with the version above"],
    );
    for version in &file.versions {
        let shared = version.shared_bytes.map_or("–".into(), |bytes| bounded(bytes, version.shared_bound));
        table.row(
            "",
            &[text(&version.first), text(&version.last), words::count(version.snapshots), bytes(version.size), shared],
        );
    }
    let _ = writeln!(out, "<details><summary>As a table</summary>\n{}</details>\n</article>", table.finish());
    Ok(())
}
