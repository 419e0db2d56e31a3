//! The files in scope, open as long as they are in use: their bytes, their layouts.

use super::scan::Data;
use crate::dedupe::file::{FileId, Opened};
use crate::dedupe::run::{Run, add};
use crate::dedupe::skip::Skip;
use crate::filesystem::Kind;
use crate::layout::{self, Piece, Way};
use crate::positioned;
use rustix::io::{Errno, Result};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::AsFd as _;
use std::rc::Rc;

/// Files that are open at once.
const MOST_OPEN: usize = 64;

/// Opens files, and keeps the last ones open.
pub(super) struct Files<'a> {
    run: &'a Run<'a>,
    /// Whether Btrfs's trees may be read.
    privileged: bool,
    open: VecDeque<(u32, Rc<Opened>)>,
    unreadable: HashSet<u32>,
    /// What the kernel would not change, or did not.
    refused: HashMap<u32, Skip>,
    /// The file that is being read in order, and how far: what is read behind it for the first time counts as read.
    reading: u32,
    reached: u64,
}

impl<'a> Files<'a> {
    pub(super) fn new(run: &'a Run<'a>, privileged: bool) -> Files<'a> {
        Files {
            run,
            privileged,
            open: VecDeque::new(),
            unreadable: HashSet::new(),
            refused: HashMap::new(),
            reading: u32::MAX,
            reached: 0,
        }
    }

    /// The file, open; `None` if it cannot be, which has been told.
    pub(super) fn get(&mut self, file: u32) -> Option<Rc<Opened>> {
        if let Some(at) = self.open.iter().position(|(number, _)| *number == file) {
            let entry = self.open.remove(at)?;
            self.open.push_back(entry);
        } else {
            if self.unreadable.contains(&file) {
                return None;
            }
            let Some(opened) = self.run.open(FileId(file)) else {
                self.unreadable.insert(file);
                return None;
            };
            if self.open.len() >= MOST_OPEN {
                self.open.pop_front();
            }
            self.open.push_back((file, Rc::new(opened)));
        }
        self.open.back().map(|(_, opened)| Rc::clone(opened))
    }

    /// The file may be read, and not changed.
    pub(super) fn refuse(&mut self, file: u32, reason: Skip) {
        self.refused.insert(file, reason);
    }

    /// Whether the kernel refuses to change a file; if so, that is told, for there is something to change.
    pub(super) fn is_refused(&self, file: u32) -> bool {
        let reason = self.refused.get(&file);
        reason.inspect(|reason| self.run.skip(FileId(file), **reason)).is_some()
    }

    /// The next bytes that count as read are those of this file, from its beginning.
    pub(super) fn begin(&mut self, file: u32) {
        (self.reading, self.reached) = (file, 0);
    }

    /// Whether the bounds of extents are known.
    pub(super) fn is_exact(&self, file: u32) -> bool {
        self.way(file) != Way::Fiemap
    }

    /// How its layout is asked for.
    pub(super) fn way(&self, file: u32) -> Way {
        let catalogue = self.run.catalogue;
        let file = FileId(file);
        if self.privileged && catalogue.volume(file).kind == Kind::Btrfs {
            Way::Items { root: catalogue.subvolume(file).number, inode: catalogue.record(file).ino }
        } else {
            Way::Fiemap
        }
    }

    /// Where a range of a file lies.
    pub(super) fn pieces(&mut self, file: u32, from: u64, to: u64, most: usize, sync: bool) -> Result<Vec<Piece>> {
        let opened = self.get(file).ok_or(Errno::NOENT)?;
        match layout::pieces(opened.as_fd(), self.way(file), from, to, most, sync) {
            // A container's root may be refused what root is granted.
            Err(Errno::PERM) if self.privileged => {
                self.privileged = false;
                layout::pieces(opened.as_fd(), self.way(file), from, to, most, sync)
            }
            result => result,
        }
    }
}

impl Data for Files<'_> {
    fn size(&mut self, file: u32) -> Option<u64> {
        self.get(file).map(|opened| opened.status().size)
    }

    fn read(&mut self, file: u32, at: u64, buffer: &mut [u8]) -> Option<usize> {
        let opened = self.get(file)?;
        positioned::prefetch(&*opened, at..at.saturating_add(buffer.len() as u64 * 2));
        let filled = match positioned::read_full(&*opened, buffer, at) {
            Ok(filled) => filled,
            Err(errno) => {
                self.run.failed(FileId(file), "read", errno);
                self.unreadable.insert(file);
                return None;
            }
        };
        let end = at + filled as u64;
        if file == self.reading && end > self.reached {
            add(&self.run.counters.read, end - self.reached.max(at));
            self.reached = end;
        }
        Some(filled)
    }
}
