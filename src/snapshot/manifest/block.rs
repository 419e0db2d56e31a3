//! A block in memory: its unpacked bytes, checked once from end to end, and the places where its directories begin.

use super::limits;
use super::order::{self, compare_tails, shared_length};
use super::record::Body;
use super::wire::Record;
use std::cmp::Ordering;

/// An unpacked block.
#[derive(Debug)]
pub(super) struct Block {
    version: u32,
    raw: Vec<u8>,
    marks: Vec<Mark>,
    /// The place of the last name, if the last directory has entries here.
    last_name: Option<(u32, u32)>,
}

/// Where a directory begins in a block. The first mark is at the block's beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// Offset of its record.
    pub(super) record: u32,
    /// Whether that record only continues the entries of the block before.
    pub(super) continued: bool,
    shared: u32,
    suffix: (u32, u32),
}

impl Block {
    /// Parses the bytes of a block of this format version. Checks every record's form, the names, and the order. The
    /// error describes the fault.
    pub(super) fn parse(raw: Vec<u8>, version: u32) -> Result<Block, &'static str> {
        let length = u32::try_from(raw.len()).map_err(|_| "it is too large")?;
        let mut marks = Vec::new();
        let (mut path, mut before) = (Vec::new(), Vec::new());
        let mut last_name: Option<&[u8]> = None;
        let mut rest = &raw[..];
        while !rest.is_empty() {
            let record = length - rest.len() as u32;
            let (value, after) = Record::take_from(rest, version).ok_or("a record of it is malformed")?;
            rest = after;
            check(&value)?;
            match value {
                Record::Directory { shared, suffix, .. } => {
                    let shared_length = shared as usize;
                    std::mem::swap(&mut path, &mut before);
                    path.clear();
                    path.extend_from_slice(before.get(..shared_length).ok_or("a directory's path is malformed")?);
                    path.extend_from_slice(suffix);
                    if path.len() > limits::PATH {
                        return Err("a directory's path is too long");
                    }
                    if marks.is_empty() && !order::is_path(&path) {
                        return Err("invalid directory path");
                    }
                    if !marks.is_empty() {
                        if order::shared_length(&before, &path) != shared_length {
                            return Err("a directory's path is malformed");
                        }
                        order::may_follow(Some(&before), &path, shared_length)?;
                    }
                    let start = offset_of(&raw, suffix);
                    marks.push(Mark { record, continued: false, shared, suffix: (start, start + suffix.len() as u32) });
                    last_name = None;
                }
                Record::Continued(full) => {
                    if !marks.is_empty() {
                        return Err("a directory continues in the middle of the block");
                    }
                    if !order::is_path(full) || full.len() > limits::PATH {
                        return Err("invalid directory path");
                    }
                    let start = offset_of(&raw, full);
                    marks.push(Mark { record, continued: true, shared: 0, suffix: (start, start + full.len() as u32) });
                    path.extend_from_slice(full);
                }
                Record::Entry { name, .. } => {
                    if marks.is_empty() || !order::is_name(name) {
                        return Err("an entry of it has no name or no directory");
                    }
                    if last_name.is_some_and(|last| last >= name) {
                        return Err("its entries are out of order");
                    }
                    last_name = Some(name);
                }
            }
        }
        let last_name = last_name.map(|name| (offset_of(&raw, name), name.len() as u32));
        Ok(Block { version, raw, marks, last_name })
    }

    /// About how many bytes of memory it takes.
    pub(super) fn size(&self) -> usize {
        self.raw.len() + self.marks.len() * size_of::<Mark>()
    }

    /// The record at an offset, and the offset behind it; `None` at the end. The block was checked when it was parsed.
    pub(super) fn record(&self, at: u32) -> Option<(Record<'_>, u32)> {
        let rest = self.raw.get(at as usize..).filter(|rest| !rest.is_empty())?;
        let (record, after) = Record::take_from(rest, self.version)?;
        Some((record, (self.raw.len() - after.len()) as u32))
    }

    /// A mark by its number.
    pub(super) fn mark(&self, number: usize) -> Option<Mark> {
        self.marks.get(number).copied()
    }

    /// The path of the directory at a mark.
    pub(super) fn path(&self, number: usize) -> Vec<u8> {
        let mut path = Vec::new();
        for mark in self.marks.iter().take(number + 1) {
            path.truncate(mark.shared as usize);
            path.extend_from_slice(self.suffix(mark));
        }
        path
    }

    /// The path of the directory that holds the record at an offset.
    pub(super) fn path_before(&self, offset: u32) -> Vec<u8> {
        let number = self.marks.partition_point(|mark| mark.record <= offset);
        self.path(number.saturating_sub(1))
    }

    /// Whether the first record is the one that an index names: a directory, or (with a name) an entry of it.
    pub(super) fn begins_with(&self, (path, name): (&[u8], &[u8])) -> bool {
        let Some(first) = self.mark(0) else { return false };
        if self.suffix(&first) != path || first.continued == name.is_empty() {
            return false;
        }
        let second = || self.record(self.record(0)?.1);
        name.is_empty() || matches!(second(), Some((Record::Entry { name: found, .. }, _)) if found == name)
    }

    /// Checks that the record which an index names may follow the last record here.
    pub(super) fn may_precede(&self, (path, name): (&[u8], &[u8])) -> Result<(), &'static str> {
        let last = self.path(self.marks.len().saturating_sub(1));
        if name.is_empty() {
            return order::may_follow(Some(&last), path, shared_length(&last, path));
        }
        let last_name =
            self.last_name.map_or(&[][..], |(start, length)| &self.raw[start as usize..][..length as usize]);
        match last == path && last_name < name {
            true => Ok(()),
            false => Err("entries are out of order, or of a directory that has no record"),
        }
    }

    /// The first directory here that is `path` or comes after it, and whether it is `path`. The number of marks if
    /// there is none. Reads no byte of a path twice, so that deep trees cost no more than flat ones.
    pub(super) fn find(&self, path: &[u8]) -> (usize, bool) {
        // How many first bytes `path` shares with the directory at the mark before. That directory is smaller than
        // `path`.
        let mut matched = 0;
        for (number, mark) in self.marks.iter().enumerate() {
            let shared = mark.shared as usize;
            match shared.cmp(&matched) {
                // It shares more with the one before than `path` does, so it is smaller than `path` for the same
                // reason.
                Ordering::Greater => continue,
                // It differs from the one before at a byte where that one still equals `path`, and is greater there.
                Ordering::Less => return (number, false),
                Ordering::Equal => {
                    let (suffix, wanted) = (self.suffix(mark), &path[matched..]);
                    let common = shared_length(suffix, wanted);
                    if common == suffix.len() && common == wanted.len() {
                        return (number, true);
                    }
                    if compare_tails(suffix, wanted, common) == Ordering::Greater {
                        return (number, false);
                    }
                    matched += common;
                }
            }
        }
        (self.marks.len(), false)
    }

    fn suffix(&self, mark: &Mark) -> &[u8] {
        &self.raw[mark.suffix.0 as usize..mark.suffix.1 as usize]
    }
}

/// Refuses sizes that no file can have, so that no other code has to expect them.
fn check(record: &Record<'_>) -> Result<(), &'static str> {
    if let Record::Entry { body, .. } = record
        && let Body::File(file) = &**body
        && (file.size > i64::MAX as u64 || file.holes > file.size)
    {
        return Err("invalid file size");
    }
    Ok(())
}

/// The offset of a part of `whole`.
fn offset_of(whole: &[u8], part: &[u8]) -> u32 {
    (part.as_ptr() as usize - whole.as_ptr() as usize) as u32
}
