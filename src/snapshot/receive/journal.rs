//! Notes how far a snapshot was received, so that a transfer can continue after it was cut.
//!
//! The journal has the records that are complete. From time to time the tree is synced, and then the position is noted:
//! so everything before it is on the disk. That happens beside the transfer, and takes none of its time. What arrived
//! behind the position arrives again and replaces what it had made.

use super::tree::FREE_SPACE;
use crate::error::{Error, Result};
use crate::snapshot::manifest::Item;
use crate::snapshot::repository::{JOURNAL, POSITION, POSITION_NEW, Staging};
use crate::snapshot::stream::{Begin, DevicePairs, Digest, Position, damage};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::ErrorKind;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A position is noted after this many bytes of content. One more part of this length may arrive until it is noted.
const EVERY: u64 = 24 << 20;
/// A record counts as `RECORD` bytes of content, and an entry that was made as `MADE` more: a note comes
/// after some 20,000 entries without content.
const RECORD: u64 = 64;
const MADE: u64 = 1 << 10;
/// The longest record, in bytes, and the longest note.
const LONGEST: u64 = 32 << 20;

/// Everything that must be known to continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) identity: Digest,
    pub(super) base: Option<(String, Digest)>,
    pub(super) is_based: bool,
    pub(super) position: Position,
    /// The path of the file that has a part of its content.
    pub(super) begun: Option<Vec<u8>>,
    /// The length of the journal.
    journal: u64,
    pub(super) devices: DevicePairs,
}

/// The journal of a snapshot that is being received.
pub(super) struct Journal {
    file: BufWriter<File>,
    note: Note,
    /// The work since the last note, in bytes of content.
    since: u64,
    staging: Arc<Staging>,
    tree: Arc<OwnedFd>,
    writing: Option<JoinHandle<Result<()>>>,
    buffer: Vec<u8>,
}

impl Journal {
    /// Begins a journal.
    pub(super) fn begin(staging: &Arc<Staging>, begin: &Begin) -> Result<Journal> {
        let file = staging.file(JOURNAL, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)?;
        let note = Note {
            identity: begin.identity,
            base: begin.base.clone(),
            is_based: staging.is_based,
            position: Position::default(),
            begun: None,
            journal: 0,
            devices: DevicePairs::default(),
        };
        Journal::new(staging, file, note)
    }

    /// Continues a journal.
    pub(super) fn resume(staging: &Arc<Staging>, note: Note) -> Result<Journal> {
        let mut file = staging.file(JOURNAL, OFlags::RDWR)?;
        let ready = file.set_len(note.journal).and_then(|()| file.seek(SeekFrom::End(0)));
        ready.map_err(|cause| Error::failed("open the journal of the transfer").because(cause))?;
        Journal::new(staging, file, note)
    }

    /// Passes each record to `each`.
    pub(super) fn replay(&self, each: impl FnMut(Item) -> Result<()>) -> Result<()> {
        let file = self.staging.file(JOURNAL, OFlags::RDONLY)?;
        records(BufReader::with_capacity(1 << 20, file), self.note.position.records, each)
    }

    fn new(staging: &Arc<Staging>, file: File, note: Note) -> Result<Journal> {
        let tree = staging.tree.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?;
        Ok(Journal {
            file: BufWriter::with_capacity(256 << 10, file),
            note,
            since: 0,
            staging: Arc::clone(staging),
            tree: Arc::new(tree),
            writing: None,
            buffer: Vec::new(),
        })
    }

    /// How far the snapshot is complete.
    pub(super) fn position(&mut self) -> &mut Position {
        &mut self.note.position
    }

    /// The device numbers that the stream gave.
    pub(super) fn devices(&mut self) -> &mut DevicePairs {
        &mut self.note.devices
    }

    /// Adds a record, which is complete.
    pub(super) fn add(&mut self, item: &Item) -> Result<()> {
        self.buffer.clear();
        postcard::to_io(item, &mut self.buffer).map_err(|_| Error::failed("encode a record"))?;
        let length = (self.buffer.len() as u32).to_le_bytes();
        let written = self.file.write_all(&length).and_then(|()| self.file.write_all(&self.buffer));
        written.map_err(|cause| failed("write the journal of the transfer", cause))?;
        self.note.journal += (length.len() + self.buffer.len()) as u64;
        self.note.position.records += 1;
        self.note.position.offset = 0;
        self.note.begun = None;
        self.since += RECORD;
        Ok(())
    }

    /// Counts an entry that was made.
    pub(super) fn made(&mut self) {
        self.since += MADE;
    }

    /// Whether the position must be noted.
    pub(super) fn is_due(&self) -> bool {
        self.since >= EVERY
    }

    /// The next content is that of the file at this path.
    pub(super) fn begin_content(&mut self, path: Vec<u8>) {
        self.note.begun = Some(path);
    }

    /// Counts content that was written, up to this offset in the file in progress.
    pub(super) fn advance(&mut self, bytes: u64, offset: u64) -> Result<()> {
        self.note.position.offset = offset;
        self.since += bytes;
        if self.is_due() { self.write() } else { Ok(()) }
    }

    /// Notes the position, beside the transfer. Everything before it was made, and all directories that were left have
    /// their metadata.
    pub(super) fn write(&mut self) -> Result<()> {
        self.wait()?;
        self.since = 0;
        self.file.flush().map_err(|cause| failed("write the journal of the transfer", cause))?;
        let (note, staging, tree) = (self.note.clone(), Arc::clone(&self.staging), Arc::clone(&self.tree));
        let writing = std::thread::Builder::new().spawn(move || {
            rustix::fs::syncfs(&*tree).map_err(|errno| failed("sync the repository", errno.into()))?;
            write(&staging, &note)
        });
        self.writing = Some(writing.map_err(|cause| failed("start a thread that notes the position", cause))?);
        Ok(())
    }

    /// Waits for a note that is being written.
    pub(super) fn wait(&mut self) -> Result<()> {
        match self.writing.take() {
            Some(writing) => writing.join().map_err(|_| Error::failed("note the position of the transfer"))?,
            None => Ok(()),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}

fn failed(action: &str, cause: std::io::Error) -> Error {
    let is_full = matches!(cause.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let error = Error::failed(action).because(cause);
    if is_full { error.hint(FREE_SPACE) } else { error }
}

/// Passes `count` records of a journal to `each`.
pub(super) fn records(mut input: impl Read, count: u64, mut each: impl FnMut(Item) -> Result<()>) -> Result<()> {
    let failed = |cause| Error::failed("read the journal of the transfer").because(cause);
    let mut bytes = Vec::new();
    for _ in 0..count {
        let mut length = [0; 4];
        input.read_exact(&mut length).map_err(failed)?;
        let length = u64::from(u32::from_le_bytes(length)).min(LONGEST);
        bytes.clear();
        input.by_ref().take(length).read_to_end(&mut bytes).map_err(failed)?;
        each(postcard::from_bytes(&bytes).map_err(|_| damage("the journal is malformed"))?)?;
    }
    Ok(())
}

fn write(staging: &Staging, note: &Note) -> Result<()> {
    let bytes = format(note).ok_or_else(|| Error::failed("encode the position of the transfer"))?;
    let failed = |cause| failed("note the position of the transfer", cause);
    staging.unlink(POSITION_NEW)?;
    let mut file = staging.file(POSITION_NEW, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    file.write_all(&bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    staging.replace(POSITION_NEW, POSITION)
}

/// The note of an unfinished snapshot, if it has a sound one.
pub(super) fn read(staging: &Staging) -> Option<Note> {
    read_from(staging.file(POSITION, OFlags::RDONLY).ok()?)
}

/// The note in its file, if it is sound.
pub(super) fn read_from(file: File) -> Option<Note> {
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    parse(&bytes)
}

/// A note as it is in its file.
pub(super) fn format(note: &Note) -> Option<Vec<u8>> {
    let bytes = postcard::to_stdvec(note).ok()?;
    Some([blake3::hash(&bytes).as_bytes(), &bytes[..]].concat())
}

/// The note in these bytes, if they are sound.
pub(super) fn parse(bytes: &[u8]) -> Option<Note> {
    let (digest, rest) = bytes.split_first_chunk::<32>()?;
    (blake3::hash(rest).as_bytes() == digest).then(|| postcard::from_bytes(rest).ok())?
}
