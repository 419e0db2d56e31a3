//! The objects: each group, each range at each of its places, each pair, and the total (`docs/sharing.md`).

use super::words::{SharingReport, sum};
use crate::error::Result;
use crate::extents::sharing::{Amount, FileId, Range};
use crate::monitor::Monitor;
use crate::program::output::Output;
use crate::program::output::json::PathField;
use serde::Serialize;

#[derive(Serialize)]
struct GroupLine {
    r#type: &'static str,
    group: usize,
    files: u32,
    bytes: u64,
    encoded_bytes: u64,
    ranges: u64,
    listed: bool,
}

#[derive(Serialize)]
struct RangeLine<'a> {
    r#type: &'static str,
    group: usize,
    #[serde(flatten)]
    path: PathField<'a>,
    logical: u64,
    physical: u64,
    length: u64,
    encoded: bool,
}

#[derive(Serialize)]
struct PairLine<'a> {
    r#type: &'static str,
    files: [PathField<'a>; 2],
    bytes: u64,
    encoded_bytes: u64,
}

#[derive(Serialize)]
struct FileLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    bytes: u64,
    encoded_bytes: u64,
    marked_only_bytes: u64,
}

#[derive(Serialize)]
struct TotalLine {
    r#type: &'static str,
    files: usize,
    groups: usize,
    bytes: u64,
    encoded_bytes: u64,
    unpaired_files: u32,
}

/// Prints the objects.
pub(super) fn show(output: &Output, report: &SharingReport<'_>, monitor: &dyn Monitor) -> Result<()> {
    let sharing = report.sharing;
    let path = |file: FileId| PathField::new(&report.paths[file.index()]);
    for (path, file) in report.paths.iter().zip(&sharing.files) {
        let Amount { bytes, encoded_bytes } = file.shared;
        let marked_only_bytes = file.marked_only_bytes;
        let path = PathField::new(path);
        output.json(&FileLine { r#type: "sharing_file", path, bytes, encoded_bytes, marked_only_bytes });
    }
    for (n, group) in sharing.groups.iter().enumerate() {
        let Amount { bytes, encoded_bytes } = group.amount;
        let (files, ranges, listed) = (group.file_count, group.ranges, group.is_listed());
        output.json(&GroupLine { r#type: "sharing", group: n + 1, files, bytes, encoded_bytes, ranges, listed });
    }
    let range = |range: &Range<'_>| {
        for holder in range.holders {
            output.json(&RangeLine {
                r#type: "sharing_range",
                group: range.group + 1,
                path: path(holder.file),
                logical: holder.logical,
                physical: range.physical,
                length: holder.length,
                encoded: range.is_encoded,
            });
        }
    };
    sharing.ranges(range, monitor)?;
    for pair in &sharing.pairs {
        let Amount { bytes, encoded_bytes } = pair.amount;
        output.json(&PairLine { r#type: "sharing_pair", files: pair.files.map(path), bytes, encoded_bytes });
    }
    let Amount { bytes, encoded_bytes } = sum(&sharing.groups);
    output.json(&TotalLine {
        r#type: "sharing_total",
        files: sharing.files.len(),
        groups: sharing.groups.len(),
        bytes,
        encoded_bytes,
        unpaired_files: sharing.unpaired_files,
    });
    Ok(())
}
