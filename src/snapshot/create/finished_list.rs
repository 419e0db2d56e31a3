//! The list of files that a run has finished. If the run is killed, the next run continues from this list.
//! `docs/format.md` has its layout. `resumed_file` decides which files are taken over.
//!
//! The manifest cannot serve this purpose: it gets the records of a directory's files when the last of them is
//! complete, which may never happen with large files. This list gets each file when it is complete, small files in
//! batches.

use crate::fs::identity::Identity;
use crate::fs::mount_id::MountId;
use crate::fs::pread::{read_exact, write_all};
use crate::fs::status::Status;
use crate::fs::timestamp::{Clock, may_have_changed_since};
use crate::snapshot::lookup::{Gathering, Lookup, identity};
use crate::snapshot::manifest::{Stored, Time};
use crate::util::mutex::lock;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::Mutex;

const BEGINNING: &[u8; 12] = b"pleachFI\x02\0\0\0";
const CHECKSUM: usize = 8;
/// The longest record, in bytes. A file with a longer record, because of its path, is not listed.
const LONGEST: usize = 1 << 16;
/// Records are written after this many bytes of them, or of the content that they describe.
const BATCH: (usize, u64) = (32 << 10, 4 << 20);

/// The first record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The session of the repository's filesystem.
    pub(super) session: Option<MountId>,
    /// When the run began. A file with a ctime at or after it may have changed unnoticed.
    pub(super) created: Time,
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finished {
    /// Its path in the tree, and in the source.
    #[serde(with = "serde_bytes")]
    pub(super) path: Vec<u8>,
    /// The filesystem of the source.
    pub(super) filesystem: Identity,
    /// The source's identity: this field and the next four.
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
    /// This field and the next two are as in the manifest.
    pub(super) holes: u64,
    pub(super) hash: Option<[u8; 32]>,
    pub(super) stored: Stored,
    /// How much of its data was written.
    pub(super) written: u64,
    /// The file in the tree. `None` if that file only has the source's data, so that nothing but the hash is worth
    /// keeping.
    pub(super) copy: Option<Made>,
}

/// A file of the tree, as it was when it was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) ino: u64,
    /// `None` if the file gets further names later.
    pub(super) ctime: Option<Time>,
}

/// The list that a run writes. It only saves time: an error ends the list and not the run.
#[derive(Debug)]
pub(super) struct NewList(Mutex<Unwritten>);

#[derive(Debug)]
struct Unwritten {
    file: Option<File>,
    length: u64,
    records: Vec<u8>,
    /// Bytes of content that the records describe.
    content: u64,
}

impl NewList {
    /// Begins a list in an empty file.
    pub(super) fn begin(file: File, header: &Header) -> NewList {
        let mut unwritten = Unwritten { file: Some(file), length: 0, records: BEGINNING.to_vec(), content: 0 };
        append(header, &mut unwritten.records);
        unwritten.write();
        NewList(Mutex::new(unwritten))
    }

    /// Adds a file. `content` bytes were read or written for it.
    pub(super) fn add(&self, finished: &Finished, content: u64) {
        let mut unwritten = lock(&self.0);
        append(finished, &mut unwritten.records);
        unwritten.content += content;
        if unwritten.records.len() >= BATCH.0 || unwritten.content >= BATCH.1 {
            unwritten.write();
        }
    }

    /// Ends the list and empties it, if the disk still allows that.
    pub(super) fn withdraw(&self) {
        let mut unwritten = lock(&self.0);
        if let Some(file) = unwritten.file.take() {
            let _ = file.set_len(0);
        }
    }
}

impl Drop for NewList {
    fn drop(&mut self) {
        lock(&self.0).write();
    }
}

impl Unwritten {
    fn write(&mut self) {
        if let Some(file) = &self.file {
            match write_all(file, &self.records, self.length) {
                Ok(()) => self.length += self.records.len() as u64,
                Err(_) => self.file = None,
            }
        }
        self.records.clear();
        self.content = 0;
    }
}

/// The list of an earlier run.
#[derive(Debug)]
pub(super) struct List {
    file: File,
    pub(super) header: Header,
    places: Lookup,
}

impl List {
    /// Reads a list as far as it is intact and remembers at most `most` of its files. `None` if the file is not a list.
    pub(super) fn open(file: File, most: usize) -> Option<List> {
        let mut input = BufReader::new(&file);
        let mut beginning = [0; BEGINNING.len()];
        input.read_exact(&mut beginning).ok().filter(|()| beginning == *BEGINNING)?;
        let mut offset = BEGINNING.len() as u64;
        let mut payload = Vec::new();
        let (header, length) = next::<Header>(&mut input, &mut payload)?;
        offset += length;
        let mut places = Gathering::new(most);
        while let Some((finished, length)) = next::<Finished>(&mut input, &mut payload) {
            places.add(finished.size, identity(finished.ino, finished.mtime, finished.ctime), offset);
            offset += length;
        }
        let places = places.end();
        Some(List { file, header, places })
    }

    /// The finished files with a source of exactly this identity, except files as young as the list.
    pub(super) fn find(&self, status: &Status, filesystem: Identity) -> impl Iterator<Item = Finished> {
        let Status { ino, size, mtime, ctime, .. } = *status;
        let places = self.places.find(size, identity(ino, mtime, ctime));
        let is_same = move |finished: &Finished| {
            (finished.filesystem, finished.ino, finished.size) == (filesystem, ino, size)
                && (finished.mtime, finished.ctime) == (mtime, ctime)
        };
        let is_settled = !may_have_changed_since(ctime, self.header.created, Clock::Local);
        places.filter(move |_| is_settled).filter_map(|place| self.at(place)).filter(is_same)
    }

    fn at(&self, offset: u64) -> Option<Finished> {
        let mut length = [0; 4];
        read_exact(&self.file, &mut length, offset).ok()?;
        let mut rest = vec![0; (u32::from_le_bytes(length) as usize).min(LONGEST) + CHECKSUM];
        read_exact(&self.file, &mut rest, offset + 4).ok()?;
        check(&rest).and_then(|payload| postcard::from_bytes(payload).ok())
    }
}

/// Appends a record: its length, its bytes, its checksum. Skips a record that is too long.
fn append(record: &impl Serialize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; 4]);
    let encoded = postcard::to_io(record, &mut *out).is_ok();
    let length = out.len() - start - 4;
    if !encoded || length > LONGEST {
        out.truncate(start);
        return;
    }
    let checksum = blake3::hash(out.get(start + 4..).unwrap_or_default());
    out.extend_from_slice(checksum.as_bytes().first_chunk::<CHECKSUM>().unwrap_or(&[0; CHECKSUM]));
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&(length as u32).to_le_bytes());
    }
}

/// The next record, and its whole length. `None` at the end and where the list is damaged.
fn next<T: for<'d> Deserialize<'d>>(input: &mut impl Read, buffer: &mut Vec<u8>) -> Option<(T, u64)> {
    let mut length = [0; 4];
    input.read_exact(&mut length).ok()?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return None;
    }
    buffer.resize(length + CHECKSUM, 0);
    input.read_exact(buffer).ok()?;
    let record = postcard::from_bytes(check(buffer)?).ok()?;
    Some((record, (4 + length + CHECKSUM) as u64))
}

/// A record without its checksum, if the checksum is right.
fn check(bytes: &[u8]) -> Option<&[u8]> {
    let (payload, checksum) = bytes.split_last_chunk::<CHECKSUM>()?;
    blake3::hash(payload).as_bytes().starts_with(checksum).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Identity = [7; 16];
    const CREATED: Time = Time { seconds: 100, nanos: 0 };

    fn header() -> Header {
        Header { session: Some(MountId { boot: "b".into(), mount: 7 }), created: CREATED }
    }

    fn finished(ino: u64, size: u64) -> Finished {
        let (mtime, ctime) = (Time { seconds: 5, nanos: 6 }, Time { seconds: 99, nanos: 8 });
        let (path, hash, copy) = (b"a/b".to_vec(), Some([9; 32]), Some(Made { ino: 1, ctime: None }));
        Finished {
            path,
            filesystem: DISK,
            dev: 1,
            ino,
            size,
            mtime,
            ctime,
            holes: 0,
            hash,
            stored: Stored::Copied,
            written: size,
            copy,
        }
    }

    fn status(finished: &Finished) -> Status {
        let file = tempfile::tempfile().unwrap();
        let Finished { ino, size, mtime, ctime, .. } = *finished;
        Status { ino, size, mtime, ctime, ..Status::of(&file).unwrap() }
    }

    fn written(files: &[Finished]) -> File {
        let file = tempfile::tempfile().unwrap();
        let list = NewList::begin(file.try_clone().unwrap(), &header());
        files.iter().for_each(|finished| list.add(finished, finished.size));
        drop(list);
        std::io::Seek::rewind(&mut &file).unwrap();
        file
    }

    #[test]
    fn finished_files_are_found_by_their_identity() {
        let files: Vec<_> = (1..2000).map(|ino| finished(ino, 4096 + ino % 3)).collect();
        let list = List::open(written(&files), 10_000).unwrap();
        assert_eq!(list.header, header());
        for finished in &files {
            assert_eq!(list.find(&status(finished), DISK).collect::<Vec<_>>(), std::slice::from_ref(finished));
            let other = Status { mtime: Time { seconds: 5, nanos: 7 }, ..status(finished) };
            assert_eq!(list.find(&other, DISK).count(), 0);
            assert_eq!(list.find(&status(finished), [8; 16]).count(), 0, "another filesystem");
        }
    }

    #[test]
    fn a_file_as_young_as_its_run_is_not_found() {
        let young = Finished { ctime: CREATED, ..finished(1, 1) };
        let list = List::open(written(std::slice::from_ref(&young)), 10).unwrap();
        assert_eq!(list.find(&status(&young), DISK).count(), 0);
    }

    #[test]
    fn nothing_is_found_in_a_list_that_was_withdrawn() {
        let file = tempfile::tempfile().unwrap();
        let list = NewList::begin(file.try_clone().unwrap(), &header());
        list.add(&finished(1, 1 << 30), 1 << 30);
        list.withdraw();
        list.add(&finished(2, 1 << 30), 1 << 30);
        drop(list);
        std::io::Seek::rewind(&mut &file).unwrap();
        assert!(List::open(file, 10).is_none());
    }

    #[test]
    fn a_large_file_is_listed_at_once_and_small_ones_in_batches() {
        let file = tempfile::tempfile().unwrap();
        let list = NewList::begin(file.try_clone().unwrap(), &header());
        let empty = file.metadata().unwrap().len();
        list.add(&finished(1, 5), 5);
        assert_eq!(file.metadata().unwrap().len(), empty);
        list.add(&finished(2, 1 << 30), 1 << 30);
        let both = file.metadata().unwrap().len();
        assert!(both > empty);
        (0..1000).for_each(|ino| list.add(&finished(ino, 5), 5));
        assert!(file.metadata().unwrap().len() > both);
    }

    #[test]
    fn a_list_is_good_up_to_where_it_was_cut_or_altered() {
        let files: Vec<_> = (1..50).map(|ino| finished(ino, 4096)).collect();
        let whole = written(&files).metadata().unwrap().len();
        for at in (0..whole).step_by(61) {
            let (cut, altered) = (written(&files), written(&files));
            cut.set_len(at).unwrap();
            write_all(&altered, &[0xa5], at).unwrap();
            for file in [cut, altered] {
                let Some(list) = List::open(file, 100) else { continue };
                let found: Vec<_> =
                    files.iter().flat_map(|finished| list.find(&status(finished), DISK).collect::<Vec<_>>()).collect();
                assert_eq!(found, files[..found.len()], "at {at}");
                assert!(found.len() as u64 <= at * 50 / whole + 1);
            }
        }
        assert!(List::open(tempfile::tempfile().unwrap(), 100).is_none());
    }
}
