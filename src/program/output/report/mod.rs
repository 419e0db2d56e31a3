//! The report on a repository: a page for a browser, objects for scripts, and a few lines for a terminal.
//!
//! The page is one file. It has no script and loads nothing. `page` puts it together; each of its sections is a file:
//! `overview`, `calendar`, `growth`, `pruning`, `changes`, `files`, `snapshots`, `problems`. `html` has the elements
//! that they use: all text goes through its functions, which escape it.

mod calendar;
mod changes;
mod files;
mod growth;
mod html;
mod json;
mod overview;
mod page;
mod problems;
mod pruning;
mod snapshots;

use super::own_file::OwnFile;
use super::{Output, bound, summary};
use crate::error::Result;
use crate::monitor::Monitor;
use crate::snapshot::report::Stats;
use crate::util::text::{self, counted, size};
use std::path::Path;

/// The file of a page.
const FILE: OwnFile = OwnFile { noun: "report", verb: "write", ending: ".html.part", is_own: is_page };

/// Whether a file with this beginning is a page that pleach wrote.
fn is_page(begins: &[u8]) -> bool {
    let mut lines = begins.split(|byte| *byte == b'\n');
    lines.next() == Some(page::DOCTYPE.as_bytes()) && lines.next() == Some(page::MARK.as_bytes())
}

/// Refuses a path where no page can be written, before any work is done.
///
/// # Errors
/// If something else is there, or the directory does not exist.
pub(crate) fn check(path: &Path) -> Result<()> {
    FILE.check(path)
}

/// The page.
///
/// # Errors
/// Only if the monitor asks to stop.
pub(crate) fn page(stats: &Stats, monitor: &dyn Monitor) -> Result<String> {
    page::page(stats, monitor)
}

/// Writes the page to a file, as a whole or not at all.
///
/// # Errors
/// Like [`check`], or if the page cannot be written; the previous one stays.
pub(crate) fn save(path: &Path, page: &str) -> Result<()> {
    FILE.save(path, page)
}

/// Prints the objects for scripts, or a few lines for people.
pub(crate) fn show(output: &Output, stats: &Stats) {
    if output.is_json() {
        json::show(output, stats);
        return;
    }
    let snapshots = stats.snapshots.len() as u64;
    let mut rows = vec![];
    if let Some(newest) = stats.snapshots.last() {
        rows.push(("newest", format!("{}, {}", newest.name, counted(newest.files, "file"))));
        rows.push(("size", size(newest.bytes)));
    }
    if let Some(space) = stats.space {
        rows.push(("disk", format!("{} of {} free", size(space.free_bytes), size(space.total_bytes))));
    }
    if let Some(pruning) = &stats.pruning {
        let what = if pruning.is_given { "these rules" } else { "--keep-last 1" };
        let freed = format!("{}{}", bound::words(pruning.freed.bound), size(pruning.freed.bytes));
        let removed = counted(pruning.removed, "snapshot");
        rows.push(("prune", format!("{what} would remove {removed} and free {freed}")));
    }
    if let Some(change) = stats.changes.new.first() {
        rows.push(("changes", format!("most new data: {} in {}", size(change.bytes), text::path(&change.path))));
    }
    let runs = stats.snapshots.iter().filter(|row| row.errors > 0).count() as u64;
    if runs > 0 {
        rows.push(("skipped", format!("{} lack entries that could not be read", counted(runs, "snapshot"))));
    }
    if let Some(verified) = &stats.verification {
        rows.push(("verify", problems::verified(stats, verified)));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    let heading = format!("{} in {}", counted(snapshots, "snapshot"), text::path(&stats.path));
    summary::print(output, &heading, &rows);
}
