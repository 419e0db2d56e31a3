//! Writes the content of one file, as parts of it arrive.

use super::journal::Journal;
use super::tree::cannot_make;
use crate::content::hash::{self, StreamHash};
use crate::error::{Error, Result};
use crate::fs::pread;
use crate::fs::sparse::{self, Segment};
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::manifest::FileBody;
use crate::snapshot::stream::{Input, Op, damage, damage_of};
use crate::sys::reflink;
use crate::tree::walk::absolute;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::io::Read;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};

/// How much is written or copied at once, in bytes.
const CHUNK: usize = 1 << 20;
/// How many zeros are written at once.
const ZEROS: u64 = 16 << 20;
/// The hash of a file is checked if this many times the bytes that arrived are not fewer than its size. More would cost
/// more than the transfer: the rest is a hole without end, or the content of another file.
const CHECKED: u64 = 16;
/// Files up to this size, in bytes, are checked in any case.
const SMALL: u64 = 64 << 20;

/// The bytes of a file that arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) data: u64,
    pub(super) shared: u64,
}

/// Opens the file at a place of the stream.
pub(super) type OpenPlace<'o> = &'o mut dyn FnMut(&crate::snapshot::stream::Place) -> Result<OwnedFd>;

/// What a file has before its parts arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Had {
    Nothing,
    /// The content of another file.
    Start,
    /// A part of its content, from a transfer that was cut. The sender may have chosen another start then, so its hash
    /// is checked in any case.
    Part,
}

/// Writes all parts into `file`, which already has its size.
pub(super) fn receive<R: Read>(
    input: &mut Input<R>,
    file: &OwnedFd,
    (path, record): (&[u8], &FileBody),
    had: Had,
    open: OpenPlace<'_>,
    journal: &mut Journal,
    monitor: &dyn Monitor,
) -> Result<Written> {
    let failed = |errno| cannot_make(path, errno);
    let stopped = |errno| if errno == Errno::CANCELED { Error::interrupted() } else { failed(errno) };
    let mut written = Written::default();
    let expected = record.hash.filter(|_| !record.changed);
    let is_empty = had == Had::Nothing;
    let mut stream = expected.filter(|_| is_empty).map(|_| StreamHash::default());
    let mut end = 0;
    // The sum was checked: see `stream::check`.
    let mut ahead = |offset: u64, length: u64| {
        if offset < end || offset + length > record.size {
            return Err(damage("parts of a file overlap or lie beyond its end"));
        }
        end = offset + length;
        Ok(())
    };
    loop {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        match input.next_op()? {
            Op::Data { offset, length } => {
                ahead(offset, length)?;
                let mut at = offset;
                while at < offset + length {
                    let part = input.some((offset + length - at).min(CHUNK as u64) as usize)?;
                    pread::write_all(file, part, at).map_err(failed)?;
                    if !is_checked(at, written.data) {
                        stream = None;
                    }
                    if let Some(stream) = &mut stream {
                        stream.append_at(part, at, monitor).map_err(|_| Error::interrupted())?;
                    }
                    let length = part.len() as u64;
                    at += length;
                    written.data += length;
                    monitor.advance(Amount { files: 0, bytes: length });
                    journal.advance(length, at)?;
                }
            }
            Op::Clone { offset, length, from } => {
                ahead(offset, length)?;
                stream = None;
                let source = open(&from)?;
                let part = Part { from: &source, at: from.offset, to: file, offset, length };
                part.clone(is_empty, monitor).map_err(stopped)?;
                written.shared += length;
            }
            Op::Hole { offset, length } => {
                ahead(offset, length)?;
                if !is_empty {
                    punch(file, offset, length, monitor).map_err(stopped)?;
                }
            }
            Op::Complete => break,
            _ => return Err(damage("the content of a file is incomplete")),
        }
    }
    if let Some(expected) = expected.filter(|_| had == Had::Part || is_checked(record.size, written.data)) {
        let found = match stream {
            Some(stream) => Some(stream.finish_at(record.size, monitor).map_err(|_| Error::interrupted())?),
            None => hash::file(file.as_fd(), record.size, monitor).map_err(failed)?.hash,
        };
        if found.is_some_and(|found| found != expected) {
            return Err(damage_of(&absolute(path), "its content does not have its hash"));
        }
    }
    Ok(written)
}

/// Whether the first `bytes` bytes of a file are hashed if `arrived` bytes arrived.
fn is_checked(bytes: u64, arrived: u64) -> bool {
    bytes <= arrived.saturating_mul(CHECKED).saturating_add(SMALL)
}

/// A range of a file that takes the data of a range of another one.
struct Part<'p> {
    from: &'p OwnedFd,
    /// Its offset in the source.
    at: u64,
    to: &'p OwnedFd,
    offset: u64,
    length: u64,
}

impl Part<'_> {
    /// Makes both ranges share their data, or copies it. `is_empty`: the destination has no data yet.
    ///
    /// # Errors
    /// `CANCELED` when the monitor asks to stop.
    fn clone(&self, is_empty: bool, monitor: &dyn Monitor) -> rustix::io::Result<()> {
        match reflink::clone_range(self.from, self.at, self.length, self.to, self.offset) {
            // Not aligned, another filesystem, or one without reflinks.
            Err(Errno::INVAL | Errno::XDEV | Errno::OPNOTSUPP | Errno::NOTTY | Errno::TXTBSY) => {}
            result => return result,
        }
        let end = self.at.checked_add(self.length).ok_or(Errno::OVERFLOW)?;
        if Status::of(self.from)?.size < end {
            return Err(Errno::STALE);
        }
        for segment in sparse::within(self.from.as_fd(), self.at..end) {
            match segment? {
                Segment::Data { offset, length } => self.copy(offset..offset + length, monitor)?,
                Segment::Hole { .. } if is_empty => {}
                Segment::Hole { offset, length } => punch(self.to, self.offset + (offset - self.at), length, monitor)?,
            }
        }
        Ok(())
    }

    /// Copies a range of the source.
    fn copy(&self, range: Range<u64>, monitor: &dyn Monitor) -> rustix::io::Result<()> {
        let mut buffer = vec![0; CHUNK.min((range.end - range.start) as usize)];
        let mut at = range.start;
        while at < range.end {
            if monitor.is_cancelled() {
                return Err(Errno::CANCELED);
            }
            let now = buffer.len().min((range.end - at) as usize);
            pread::read_exact(self.from, &mut buffer[..now], at)?;
            pread::write_all(self.to, &buffer[..now], self.offset + (at - self.at))?;
            at += now as u64;
        }
        Ok(())
    }
}

/// Makes a hole in a file.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop.
fn punch(file: &OwnedFd, offset: u64, length: u64, monitor: &dyn Monitor) -> rustix::io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, offset, length) {
        Err(Errno::OPNOTSUPP) => {}
        result => return result,
    }
    let (mut at, end) = (offset, offset + length);
    while at < end {
        if monitor.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        let next = end.min(at + ZEROS);
        pread::write_zeros(file, at..next)?;
        at = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use std::fs::File;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    #[test]
    fn an_unaligned_clone_of_a_huge_hole_copies_only_data() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let open = |name: &str| {
            let path = dir.path().join(name);
            File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap()
        };
        let (from, to) = (open("from"), open("to"));
        let size = 1 << 40;
        from.set_len(size).unwrap();
        from.write_all_at(b"data", size / 2).unwrap();
        to.set_len(size).unwrap();
        to.write_all_at(b"old", 7).unwrap();
        let [from, to]: [OwnedFd; 2] = [from.into(), to.into()];
        let part = |length| Part { from: &from, at: 1, to: &to, offset: 0, length };
        part(size - 5).clone(false, &Silent).unwrap();
        let (mut data, mut old) = ([0; 5], [1; 3]);
        let file = File::from(to.try_clone().unwrap());
        file.read_exact_at(&mut data, size / 2 - 1).unwrap();
        file.read_exact_at(&mut old, 7).unwrap();
        assert_eq!((&data, old), (b"data\0", [0; 3]));
        assert!(file.metadata().unwrap().blocks() < 1 << 12);
        assert_eq!(part(size).clone(false, &Silent).unwrap_err(), Errno::STALE, "beyond the end");
        struct Stop;
        impl Monitor for Stop {
            fn is_cancelled(&self) -> bool {
                true
            }
        }
        assert_eq!(part(size - 5).clone(true, &Stop).unwrap_err(), Errno::CANCELED);
    }
}
