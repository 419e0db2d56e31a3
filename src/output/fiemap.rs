//! The extents of files: a table for people, objects for scripts. Both are written as the extents come.

use super::Output;
use super::json::PathField;
use super::table::{Align, Cell, Table};
use super::terminal::Style;
use pleach::extent::{Extent, ExtentFlags};
use pleach::fiemap::{File, Stats};
use pleach::text::{self, count, counted};
use serde::Serialize;
use serde::ser::Serializer;

const COLUMNS: [(&str, Align); 4] =
    [("logical", Align::Right), ("physical", Align::Right), ("length", Align::Right), ("flags", Align::Left)];

/// The listing of one file.
pub(crate) struct Listing<'a> {
    output: &'a Output,
    file: &'a File,
    /// For people; begun with the first row.
    table: Option<Table<'a>>,
    /// Up to here the file has been listed.
    listed: u64,
}

#[derive(Serialize)]
struct ExtentLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    logical: u64,
    physical: Option<u64>,
    length: u64,
    flags: FlagNames,
}

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

/// The flags of an extent as a list of their names.
struct FlagNames(ExtentFlags);

impl Serialize for FlagNames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.names())
    }
}

impl<'a> Listing<'a> {
    /// Begins the listing of a file.
    pub(crate) fn new(output: &'a Output, file: &'a File) -> Self {
        Listing { output, file, table: None, listed: 0 }
    }

    /// Lists one extent, and the hole before it.
    pub(crate) fn extent(&mut self, extent: &Extent) {
        if self.output.is_json() {
            return self.output.json(&ExtentLine {
                r#type: "extent",
                path: PathField::new(self.file.path()),
                logical: extent.logical,
                physical: extent.physical,
                length: extent.length,
                flags: FlagNames(extent.flags),
            });
        }
        self.hole(extent.logical);
        self.listed = self.listed.max(extent.logical_end());
        let physical = match extent.physical {
            Some(physical) => Cell::from(count(physical)),
            None => Cell::styled("-", Style::Dim),
        };
        let style = if extent.is_shared() { Style::Green } else { Style::Plain };
        let flags = Cell::styled(&extent.flags.to_string(), style);
        self.row(vec![count(extent.logical).into(), physical, count(extent.length).into(), flags]);
    }

    /// Ends the listing of a file whose extents have all been listed.
    pub(crate) fn end(mut self, stats: &Stats) {
        let size = self.file.size();
        if self.output.is_json() {
            return self.output.json(&FileLine {
                r#type: "file",
                path: PathField::new(self.file.path()),
                size,
                extents: stats.extents,
                shared_bytes: stats.shared_bytes,
            });
        }
        self.hole(size);
        match self.table.take() {
            Some(table) => table.finish(),
            None => self.head(),
        }
        let shared = text::size(stats.shared_bytes);
        self.output.line(&format!("{}, {shared} shared\n", counted(stats.extents, "extent")));
    }

    fn hole(&mut self, end: u64) {
        if self.listed < end {
            let dim = |text: &str| Cell::styled(text, Style::Dim);
            self.row(vec![dim(&count(self.listed)), dim("hole"), dim(&count(end - self.listed)), dim("")]);
        }
    }

    fn row(&mut self, cells: Vec<Cell>) {
        if self.table.is_none() {
            self.head();
        }
        self.table.get_or_insert_with(|| Table::new(self.output, &COLUMNS)).row(cells);
    }

    fn head(&self) {
        let size = self.file.size();
        let head = format!("{}: {} ({})", text::path(self.file.path()), counted(size, "byte"), text::size(size));
        self.output.line(&Style::Bold.paint(&head, self.output.colours()));
    }
}

impl Drop for Listing<'_> {
    /// A listing that broke off shows what it had.
    fn drop(&mut self) {
        if let Some(table) = self.table.take() {
            table.finish();
        }
    }
}

/// The summary of all files.
pub(crate) fn summarize(output: &Output, files: u64, total: &Stats, errors: u64) {
    if output.is_json() {
        let Stats { extents, shared_bytes } = *total;
        output.json(&Summary { r#type: "summary", command: "fiemap", files, extents, shared_bytes, errors });
    } else if files > 1 && !output.is_quiet() {
        let (files, extents) = (counted(files, "file"), counted(total.extents, "extent"));
        output.line(&format!("{files}, {extents}, {} shared", text::size(total.shared_bytes)));
    }
}
