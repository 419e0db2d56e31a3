//! Extents for scripts: an object for each extent, one for each file after its extents, and the summary.

use super::listing::Total;
use crate::error::Result;
use crate::extents::extent::Reported;
use crate::fiemap::{File, Stats};
use crate::program::output::json::{PathField, write_line};
use crate::program::output::lines::Lines;
use serde::Serialize;

#[derive(Serialize)]
struct FileLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    size: u64,
    extents: u64,
    shared_bytes: u64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    files: u64,
    extents: u64,
    shared_bytes: u64,
    errors: u64,
}

/// The objects of all files.
pub(super) struct Objects<'a> {
    lines: Lines<'a>,
    /// The beginning of an object for an extent of the present file, up to the value of `logical`.
    head: Vec<u8>,
}

impl<'a> Objects<'a> {
    pub(super) fn new(lines: Lines<'a>) -> Self {
        Objects { lines, head: Vec::new() }
    }
}

impl super::listing::ExtentListing for Objects<'_> {
    fn begin(&mut self, file: &File) -> Result<()> {
        // The path is the same in a million objects, and escaping it is most of the work of making one.
        self.head.clear();
        self.head.extend_from_slice(br#"{"type":"extent","#);
        let mut path = Vec::new();
        write_line(&mut path, &PathField::new(file.path())).unwrap_or_default();
        self.head.extend_from_slice(path.trim_ascii().strip_prefix(b"{").unwrap_or_default());
        if self.head.last() == Some(&b'}') {
            self.head.pop();
        }
        self.head.extend_from_slice(br#","logical":"#);
        Ok(())
    }

    fn extent(&mut self, report: &Reported) {
        let extent = report.extent();
        let lines = &mut self.lines;
        lines.text(&self.head);
        lines.number(extent.logical);
        lines.text(br#","physical":"#);
        match extent.physical {
            Some(physical) => lines.number(physical),
            None => lines.text("null"),
        }
        lines.text(br#","length":"#);
        lines.number(extent.length);
        lines.text(br#","flags":["#);
        // The names are plain words, which need no escaping.
        for (i, name) in extent.flags.names().enumerate() {
            lines.text(if i == 0 { "\"" } else { ",\"" });
            lines.text(name);
            lines.text("\"");
        }
        lines.text("]}");
        lines.end();
    }

    fn end(&mut self, file: &File, stats: &Stats) -> Result<()> {
        self.lines.hand_on();
        let Stats { extents, shared_bytes } = *stats;
        let path = PathField::new(file.path());
        self.lines.output().json(&FileLine { r#type: "file", path, size: file.size(), extents, shared_bytes });
        Ok(())
    }

    fn break_off(&mut self) {
        self.lines.hand_on();
    }

    fn summarize(&mut self, total: &Total) {
        let Total { files, extents, shared_bytes, errors } = *total;
        let summary = Summary { r#type: "summary", command: "fiemap", files, extents, shared_bytes, errors };
        self.lines.output().json(&summary);
    }
}
