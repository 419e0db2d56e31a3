//! The second pass: each file is compared with its content, block by block, and repaired. The library stops at damage,
//! and does not compare what it decrypts with its hash.
//!
//! A file that cannot be repaired is removed, so that it does not look whole.

use super::damage::{Unread, damaged, unread};
use super::job::Job;
use super::obstacle::vacate;
use super::prepare_target::{Room, inode};
use super::selection::{Parts, Selection};
use crate::error::{Error, Result};
use crate::snapshot::offsite::verified;
use rustic_core::DataId;
use rustic_core::repofile::Node;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// How much of a file is read at once.
const BUFFER: usize = 256 << 10;

/// The files that are not restored.
#[derive(Default)]
pub(super) struct Lost {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Repairs all files. The room skips lost ones from now on.
pub(super) fn repair_content(job: &Job<'_>, selection: &Selection, room: &Room<'_>) -> Result<Lost> {
    let mut lost = Lost::default();
    let mut lost_inodes = HashSet::new();
    let mut blocks = Blocks { job, room, damaged: HashMap::new() };
    for item in selection.nodes(job, room, Parts::All, &|path, _| !room.skips(path)) {
        let (path, node) =
            item.map_err(|error| room.failure().unwrap_or_else(|| job.store.fault(job.action)(error)))?;
        let to = room.target(&path);
        if !node.is_file() {
            continue;
        }
        if room.is_another_name(&path, &node) {
            if inode(&node).is_some_and(|inode| lost_inodes.contains(&inode)) {
                let cause = io::Error::other("its other name is not restored");
                room.skip(&path, Error::failed("restore").at(&to).because(cause));
            }
            continue;
        }
        if let Err(error) = blocks.repair_file(&node, &to)? {
            room.skip(&path, error);
            if let Some(error) = room.failure() {
                return Err(error);
            }
            lost.files += 1;
            lost.bytes += node.meta.size;
            lost_inodes.extend(inode(&node));
        }
    }
    Ok(lost)
}

/// The content of files, in blocks.
struct Blocks<'r> {
    job: &'r Job<'r>,
    room: &'r Room<'r>,
    /// Blocks that cannot be read, and why.
    damaged: HashMap<DataId, String>,
}

impl Blocks<'_> {
    /// Repairs a file. The outer error ends the job, the inner one only concerns this file.
    fn repair_file(&mut self, node: &Node, to: &Path) -> Result<Result<()>> {
        if let Ok(found) = fs::symlink_metadata(to) {
            if !self.job.options.verify && self.room.is_whole(to, &found, node) {
                return Ok(Ok(()));
            }
            if self.has_content(to, &found, node)? {
                return Ok(Ok(()));
            }
            if !self.room.may_be_filled(to, &found, node)
                && let Err(error) = vacate(to)
            {
                return Ok(Err(error));
            }
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let opened = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(to);
        let mut file = match opened {
            Ok(file) => file,
            Err(cause) => return Ok(Err(Error::io("restore", to, cause))),
        };
        let repaired = self.fill(node, to, &mut file)?;
        if repaired.is_err() {
            // It would look whole. An error shows in the next job.
            let _ = fs::remove_file(to);
        }
        Ok(repaired)
    }

    /// Whether a file has the content of its node.
    fn has_content(&self, to: &Path, found: &Metadata, node: &Node) -> Result<bool> {
        if !found.is_file() || found.len() != node.meta.size {
            return Ok(false);
        }
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(to);
        let Ok(file) = opened else { return Ok(false) };
        let mut file = BufReader::with_capacity(BUFFER, file);
        for id in node.content.iter().flatten() {
            if self.job.store.counts.is_cancelled() {
                return Err(Error::interrupted());
            }
            let Ok(entry) = self.job.repository.get_index_entry(id) else { return Ok(false) };
            if !id.blob_matches_reader(entry.location.data_length().into(), &mut file) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fill(&mut self, node: &Node, to: &Path, file: &mut File) -> Result<Result<()>> {
        let failed = |cause| Ok(Err(Error::io("restore", to, cause)));
        if let Err(cause) = file.set_len(node.meta.size) {
            return failed(cause);
        }
        let mut position = 0;
        for id in node.content.iter().flatten() {
            if self.job.store.counts.is_cancelled() {
                return Err(Error::interrupted());
            }
            let length = match self.job.repository.get_index_entry(id) {
                Ok(entry) => u64::from(entry.location.data_length()),
                Err(_) => return Ok(Err(damaged(to, "the index of the store lacks some of its data"))),
            };
            if let Err(cause) = file.seek(SeekFrom::Start(position)) {
                return failed(cause);
            }
            if !id.blob_matches_reader(length, file) {
                let data = match self.read(id, to)? {
                    Ok(data) => data,
                    Err(error) => return Ok(Err(error)),
                };
                if let Err(cause) = file.seek(SeekFrom::Start(position)).and_then(|_| file.write_all(&data)) {
                    return failed(cause);
                }
            }
            position += length;
        }
        Ok(Ok(()))
    }

    /// Reads a block from the store.
    fn read(&mut self, id: &DataId, to: &Path) -> Result<Result<bytes::Bytes>> {
        if let Some(cause) = self.damaged.get(id) {
            return Ok(Err(damaged(to, cause)));
        }
        match verified::data(self.job.repository, id) {
            Ok(data) => Ok(Ok(data)),
            Err(error) => match unread(self.job.store, &error) {
                Unread::Over(error) => Err(error),
                Unread::Damaged(cause) => {
                    self.damaged.insert(*id, cause.clone());
                    Ok(Err(damaged(to, &cause)))
                }
            },
        }
    }
}
