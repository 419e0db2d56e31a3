//! The tables of files, groups, ranges and pairs, each cut to a readable length.

use super::words::{SharingReport, amount, name_of};
use crate::error::Result;
use crate::extents::sharing::{FileId, Holder, Range};
use crate::monitor::Monitor;
use crate::program::output::Output;
use crate::program::output::table::{Align, Cell, Table};
use crate::util::text::{count, counted, size};

/// Rows of each table, unless -v is given.
const ROWS: usize = 20;
/// Ranges of a group and holders of a range, unless -v is given.
const RANGES: usize = 5;
const HOLDERS: usize = 4;

/// Prints the tables.
pub(super) fn show(output: &Output, report: &SharingReport<'_>, monitor: &dyn Monitor) -> Result<()> {
    let limit = |limit: usize| if output.is_verbose() { usize::MAX } else { limit };
    let sharing = report.sharing;
    if !report.common().is_empty() {
        output.line(&format!("of {}", report.common()));
    }
    of_files(output, report, limit(ROWS));
    if sharing.groups.is_empty() {
        output.line(&match sharing.files.len() {
            1 => "the file holds nothing twice".to_string(),
            files => format!("{} share nothing with each other", counted(files as u64, "file")),
        });
        return Ok(());
    }
    of_groups(output, report, limit(ROWS));
    of_ranges(output, report, [limit(ROWS), limit(RANGES), limit(HOLDERS)], monitor)?;
    of_pairs(output, report, limit(ROWS));
    let (files, groups) = (counted(sharing.files.len() as u64, "file"), counted(sharing.groups.len() as u64, "group"));
    output.line(&format!("{files}, {groups}, {}", report.in_common()));
    Ok(())
}

fn of_files(output: &Output, report: &SharingReport<'_>, rows: usize) {
    let columns = [("file", Align::Left), ("shared here", Align::Right), ("only marked", Align::Right)];
    let mut table = Table::new(output, &columns);
    let files = &report.sharing.files;
    for (n, file) in files.iter().enumerate().take(rows) {
        table.row(vec![report.name(n).into(), amount(file.shared).into(), size(file.marked_only_bytes).into()]);
    }
    table.finish();
    more(output, files.len(), rows, "file");
    if files.iter().any(|file| file.marked_only_bytes > 0) {
        output.line("only marked: the kernel calls it shared, and no other of these files holds it");
    }
    output.line("");
}

fn of_groups(output: &Output, report: &SharingReport<'_>, rows: usize) {
    let columns = [
        ("group", Align::Left),
        ("in common", Align::Right),
        ("files", Align::Right),
        ("ranges", Align::Right),
        ("which", Align::Left),
    ];
    let mut table = Table::new(output, &columns);
    let groups = &report.sharing.groups;
    let members = if output.is_verbose() { usize::MAX } else { 60 };
    for (n, group) in groups.iter().enumerate().take(rows) {
        let ranges = if group.is_listed() { count(group.ranges) } else { "-".into() };
        table.row(vec![
            name_of(n).into(),
            amount(group.amount).into(),
            count(u64::from(group.file_count)).into(),
            ranges.into(),
            report.members(group, members).into(),
        ]);
    }
    table.finish();
    more(output, groups.len(), rows, "group");
    output.line("");
}

fn of_ranges(output: &Output, report: &SharingReport<'_>, limits: [usize; 3], monitor: &dyn Monitor) -> Result<()> {
    let [groups, ranges, holders] = limits;
    let groups = &report.sharing.groups[..report.sharing.groups.len().min(groups)];
    let mut kept: Vec<Vec<[String; 3]>> = vec![Vec::new(); groups.len()];
    let keep = |range: &Range<'_>| {
        if let Some(kept) = kept.get_mut(range.group).filter(|kept| kept.len() < ranges) {
            kept.push([count(range.physical), count(range.length), places(report, range, holders)]);
        }
    };
    report.sharing.ranges(keep, monitor)?;
    let columns =
        [("group", Align::Left), ("physical", Align::Right), ("length", Align::Right), ("where", Align::Left)];
    let mut table = Table::new(output, &columns);
    for (n, (group, kept)) in groups.iter().zip(kept).enumerate() {
        let left = group.ranges - kept.len() as u64;
        for [physical, length, places] in kept {
            table.row(vec![name_of(n).into(), physical.into(), length.into(), places.into()]);
        }
        if left > 0 {
            let left = format!("and {}", counted(left, "more range"));
            table.row(vec![name_of(n).into(), "".into(), "".into(), left.into()]);
        }
    }
    table.finish();
    output.line("");
    Ok(())
}

/// The places of a range in its files: `at 0 in a, b; at 4,096 in c`.
fn places(report: &SharingReport<'_>, range: &Range<'_>, limit: usize) -> String {
    let files: Vec<_> = range.holders.chunk_by(|a, b| a.file == b.file).collect();
    let same = |a: &&[Holder], b: &&[Holder]| a.iter().map(|a| a.logical).eq(b.iter().map(|b| b.logical));
    let alike: Vec<_> = files.chunk_by(same).collect();
    let mut places: Vec<_> =
        alike.iter().take(limit).map(|files| place(report, files, alike.len() == 1, limit)).collect();
    if alike.len() > limit {
        let more = alike[limit..].iter().map(|files| files.len()).sum::<usize>();
        places.push(format!("and in {}", counted(more as u64, "more file")));
    }
    places.join("; ")
}

/// The places of a range in files that all have it at the same offsets.
fn place(report: &SharingReport<'_>, files: &[&[Holder]], are_all: bool, limit: usize) -> String {
    let and_more = |all: usize| match all.saturating_sub(limit) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    let holders = files[0];
    let at = holders.iter().take(limit).map(|holder| count(holder.logical)).collect::<Vec<_>>().join(" and ");
    let at = format!("at {at}{}", and_more(holders.len()));
    if are_all && files.len() > 1 {
        return format!("{at} in each");
    }
    let names = files.iter().take(limit).map(|holders| report.name(holders[0].file.index())).collect::<Vec<_>>();
    format!("{at} in {}{}", names.join(", "), and_more(files.len()))
}

fn of_pairs(output: &Output, report: &SharingReport<'_>, rows: usize) {
    let pairs = &report.sharing.pairs;
    // A single pair would repeat the single group above.
    if pairs.len() > 1 {
        let mut table =
            Table::new(output, &[("in common", Align::Right), ("file", Align::Left), ("with", Align::Left)]);
        for pair in pairs.iter().take(rows) {
            let [a, b] = pair.files.map(FileId::index);
            let with = if a == b { "itself" } else { report.name(b) };
            table.row(vec![Cell::from(amount(pair.amount)), report.name(a).into(), with.into()]);
        }
        table.finish();
        more(output, pairs.len(), rows, "pair");
        output.line("");
    }
    if report.sharing.unpaired_files > 0 {
        let files = counted(u64::from(report.sharing.unpaired_files), "file");
        output.line(&format!("{files} share data with too many others to list all pairs\n"));
    }
}

fn more(output: &Output, all: usize, shown: usize, noun: &str) {
    if all > shown {
        let more = counted((all - shown) as u64, &format!("more {noun}"));
        output.line(&format!("and {more} (-v or --json shows all)"));
    }
}
