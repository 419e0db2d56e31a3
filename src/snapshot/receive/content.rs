//! Writes the content of one file, as parts of it arrive.

use super::journal::Journal;
use super::tree::cannot_make;
use crate::content::hash::{self, StreamHash};
use crate::error::{Error, Result};
use crate::fs::pread;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::manifest::FileBody;
use crate::snapshot::stream::{Input, Op, damage, damage_of};
use crate::sys::reflink;
use crate::tree::walk::absolute;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::{AsFd as _, OwnedFd};

/// How much is written or copied at once, in bytes.
const CHUNK: usize = 1 << 20;
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

/// Writes all parts into `file`, which already has its size. `is_empty`: it has no data yet.
pub(super) fn receive<R: Read>(
    input: &mut Input<R>,
    file: &OwnedFd,
    (path, record): (&[u8], &FileBody),
    is_empty: bool,
    open: OpenPlace<'_>,
    journal: &mut Journal,
    monitor: &dyn Monitor,
) -> Result<Written> {
    let failed = |errno| cannot_make(path, errno);
    let mut written = Written::default();
    let expected = record.hash.filter(|_| !record.changed);
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
                clone_range(&source, from.offset, file, offset, length).map_err(failed)?;
                written.shared += length;
            }
            Op::Hole { offset, length } => {
                ahead(offset, length)?;
                if !is_empty {
                    punch(file, offset, length).map_err(failed)?;
                }
            }
            Op::Complete => break,
            _ => return Err(damage("the content of a file is incomplete")),
        }
    }
    if let Some(expected) = expected.filter(|_| is_checked(record.size, written.data)) {
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

/// Whether so many first bytes of a file are hashed if so many bytes arrived.
fn is_checked(bytes: u64, arrived: u64) -> bool {
    bytes <= arrived.saturating_mul(CHECKED).saturating_add(SMALL)
}

/// Makes a range of a file share the data of another one, or copies it.
fn clone_range(from: &OwnedFd, at: u64, to: &OwnedFd, offset: u64, length: u64) -> rustix::io::Result<()> {
    match reflink::clone_range(from, at, length, to, offset) {
        Ok(()) => return Ok(()),
        // Not aligned, another filesystem, or one without reflinks.
        Err(Errno::INVAL | Errno::XDEV | Errno::OPNOTSUPP | Errno::NOTTY | Errno::TXTBSY) => {}
        Err(errno) => return Err(errno),
    }
    let mut buffer = vec![0; CHUNK.min(length as usize)];
    let mut done = 0;
    while done < length {
        let now = buffer.len().min((length - done) as usize);
        pread::read_exact(from, &mut buffer[..now], at + done)?;
        pread::write_all(to, &buffer[..now], offset + done)?;
        done += now as u64;
    }
    Ok(())
}

fn punch(file: &OwnedFd, offset: u64, length: u64) -> rustix::io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, offset, length) {
        Err(Errno::OPNOTSUPP) => pread::write_zeros(file, offset..offset + length),
        result => result,
    }
}
