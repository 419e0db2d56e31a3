//! The owners of a file's extents: a table for people, objects for scripts.

use super::Output;
use super::json::PathField;
use super::table::{Align, Cell, Table};
use super::terminal::Style;
use crate::fiemap::owners::{Held, Name, Owner, Part, Stats};
use crate::util::text::{self, count, counted};
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

/// The number of owners shown for a range, unless the user asks for more.
const SHOWN: usize = 20;

const COLUMNS: [(&str, Align); 4] =
    [("physical", Align::Right), ("length", Align::Right), ("logical", Align::Right), ("owner", Align::Left)];

/// The owners of one file's extents.
pub(crate) struct OwnersListing<'a> {
    output: &'a Output,
    file: &'a Path,
    table: Option<Table<'a>>,
}

/// One name of one owner of one range. `path` is omitted if the owner has none.
#[derive(Serialize)]
struct OwnerLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: Option<PathField<'a>>,
    /// Whether `path` can be opened; otherwise it starts at the top of the filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    mounted: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    subvolume: Option<u64>,
    logical: u64,
    physical: u64,
    length: u64,
    part: &'static str,
}

#[derive(Serialize)]
struct OwnersLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    ranges: u64,
    holders: u64,
    other_holders: u64,
    missed: u64,
}

impl<'a> OwnersListing<'a> {
    /// Begins the listing for a file.
    pub(crate) fn new(output: &'a Output, file: &'a Path) -> Self {
        OwnersListing { output, file, table: None }
    }

    /// Adds the owners of one range.
    pub(crate) fn range(&mut self, held: &Held) {
        if self.output.is_json() {
            for owner in &held.owners {
                owner.names.iter().for_each(|name| self.output.json(&object(owner, name)));
            }
            return;
        }
        let verbose = self.output.is_verbose();
        let mut rows = joined(&held.owners, !verbose).into_iter();
        let mut before = None;
        for (owner, name, places) in rows.by_ref().take(if verbose { usize::MAX } else { SHOWN }) {
            let place = Some((owner.physical, owner.length));
            let [physical, length] = match before == place {
                true => [Cell::default(), Cell::default()],
                false => [count(owner.physical).into(), text::size(owner.length).into()],
            };
            before = place;
            self.row([physical, length, count(owner.logical).into(), called(owner, name, places)]);
        }
        let more = rows.count() as u64;
        if more > 0 {
            self.remark(&format!("… and {} more (-v shows all)", count(more)));
        }
        if held.missed > 0 {
            self.remark(&format!("… and up to {} more that could not be found out", count(held.missed)));
        }
        if held.owners.is_empty() {
            let (physical, length) = (count(held.physical), text::size(held.length));
            let words = Cell::styled("not known yet: just written, or gone meanwhile", Style::Yellow);
            self.row([physical.into(), length.into(), count(held.logical).into(), words]);
        }
    }

    /// Ends the listing.
    pub(crate) fn end(mut self, stats: &Stats) {
        let Stats { ranges, missed, holders, other_holders } = *stats;
        if self.output.is_json() {
            let path = PathField::new(self.file);
            return self.output.json(&OwnersLine { r#type: "owners", path, ranges, holders, other_holders, missed });
        }
        let has_table = self.table.is_some();
        if let Some(table) = self.table.take() {
            table.finish();
        }
        let mut line = match (holders, has_table) {
            (_, false) => "no extent with an address".to_string(),
            (1, true) => "held by this file alone".to_string(),
            (many, true) => format!("held by {}", counted(many, "file")),
        };
        if other_holders > 0 {
            line += &format!("; {} more with other parts of the same extents", counted(other_holders, "file"));
        }
        if !has_table {
            self.output.gap();
        }
        self.output.line(&line);
    }

    fn remark(&mut self, words: &str) {
        self.row([Cell::default(), Cell::default(), Cell::default(), Cell::styled(words, Style::Dim)]);
    }

    fn row(&mut self, cells: [Cell; 4]) {
        if self.table.is_none() {
            self.output.gap();
            let head = format!("owners of {}", text::path(self.file));
            self.output.line(&Style::Bold.paint(&head, self.output.colours()));
        }
        self.table.get_or_insert_with(|| Table::new(self.output, &COLUMNS)).row(cells.into());
    }
}

impl Drop for OwnersListing<'_> {
    /// A listing that ended early shows its rows so far.
    fn drop(&mut self) {
        if let Some(table) = self.table.take() {
            table.finish();
        }
    }
}

fn object<'a>(owner: &Owner, name: &'a Name) -> OwnerLine<'a> {
    let (path, mounted) = match name {
        Name::Path(path) => (Some(PathField::new(path)), Some(true)),
        Name::Unmounted(path) => (Some(PathField::new(path)), Some(false)),
        Name::Deleted | Name::Unknown => (None, None),
    };
    OwnerLine {
        r#type: "owner",
        path,
        mounted,
        deleted: *name == Name::Deleted,
        inode: owner.inode,
        subvolume: owner.subvolume,
        logical: owner.logical,
        physical: owner.physical,
        length: owner.length,
        part: match owner.part {
            Part::This => "this",
            Part::Other => "other",
        },
    }
}

/// A row for each name, and how many further places of the range its file holds; without `join`, a row for each place.
fn joined(owners: &[Owner], join: bool) -> Vec<(&Owner, &Name, u64)> {
    let mut files: HashMap<_, usize> = HashMap::new();
    let mut rows: Vec<(&Owner, u64)> = Vec::new();
    for (i, owner) in owners.iter().enumerate() {
        let file = (owner.subvolume, owner.inode, owner.part == Part::This, if join { 0 } else { i });
        match files.entry(file) {
            Entry::Occupied(row) => rows[*row.get()].1 += 1,
            Entry::Vacant(new) => {
                new.insert(rows.len());
                rows.push((owner, 0));
            }
        }
    }
    rows.into_iter().flat_map(|(owner, places)| owner.names.iter().map(move |name| (owner, name, places))).collect()
}

/// The label of an owner in the table.
fn called(owner: &Owner, name: &Name, places: u64) -> Cell {
    let number = || match owner.subvolume {
        Some(subvolume) => format!("inode {} of subvolume {subvolume}", owner.inode),
        None => format!("inode {}", owner.inode),
    };
    let mut words = match name {
        Name::Path(path) => text::path(path),
        Name::Unmounted(path) => {
            let subvolume = owner.subvolume.unwrap_or_default();
            format!("subvolume {subvolume} {} (not below the mount point)", text::path(path))
        }
        Name::Deleted => format!("{} (deleted, still open)", number()),
        Name::Unknown => format!("{} (its name was not found)", number()),
    };
    if places > 0 {
        words += &format!(" (and in {})", counted(places, "more place"));
    }
    match owner.part {
        Part::This => Cell::path(&words, Style::Plain),
        Part::Other => {
            words += " (another part of the extent)";
            Cell::path(&words, Style::Dim)
        }
    }
}
