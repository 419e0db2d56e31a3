//! Reads a stream: checks each frame before any of its bytes is used.

use super::check::Check;
use super::frame::{self, DIGEST, HEAD, MAGIC, MOST, VERSION};
use super::op::{LONGEST, Op};
use crate::error::{Error, ErrorKind, Result};
use crate::util::compression::Unpacker;
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use std::path::Path;

/// The buffer for a longer operation is not kept, in bytes.
const KEPT: usize = 1 << 20;

/// The bytes at the beginning of a stream.
const START: usize = MAGIC.len() + 4;

/// A stream that is being read. It needs memory for a frame, packed and unpacked, and for an operation.
pub(crate) struct Input<R> {
    from: R,
    stored: Vec<u8>,
    frame: Vec<u8>,
    /// How much of the frame was used.
    used: usize,
    number: u64,
    /// Bytes before and after unpacking.
    counts: (u64, u64),
    message: Vec<u8>,
    unpacker: Unpacker,
}

impl<R: Read> Input<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// If this is not a stream, or one of another version.
    pub(crate) fn begin(mut from: R) -> Result<Input<R>> {
        let mut start = [0; START];
        from.read_exact(&mut start).map_err(unreadable)?;
        check_start(start, "it begins with something else; `pleach send` makes one")?;
        let unpacker = Unpacker::new().map_err(|cause| Error::failed("set up decompression").because(cause))?;
        Ok(Input {
            from,
            stored: Vec::new(),
            frame: Vec::new(),
            used: 0,
            number: 0,
            counts: (START as u64, START as u64),
            message: Vec::new(),
            unpacker,
        })
    }

    /// Begins to read the next stream, which may follow the end of this one. Returns whether there is one.
    ///
    /// # Errors
    /// If something else follows.
    pub(crate) fn next_stream(&mut self) -> Result<bool> {
        if self.used < self.frame.len() {
            return Err(damage("something follows the end"));
        }
        let mut start = [0; START];
        let mut done = 0;
        while done < START {
            match self.from.read(&mut start[done..]) {
                Ok(0) if done == 0 => return Ok(false),
                Ok(0) => return Err(unreadable(io::ErrorKind::UnexpectedEof.into())),
                Ok(more) => done += more,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(unreadable(cause)),
            }
        }
        check_start(start, "something else follows the end of the last one")?;
        self.number = 0;
        self.counts.0 += START as u64;
        self.counts.1 += START as u64;
        Ok(true)
    }

    /// The next operation.
    ///
    /// # Errors
    /// Kind `Damage` if it is malformed.
    pub(crate) fn next_op(&mut self) -> Result<Op> {
        self.next()
    }

    /// The next operation or reply.
    ///
    /// # Errors
    /// Kind `Damage` if it is malformed.
    pub(crate) fn next<T: DeserializeOwned + Check>(&mut self) -> Result<T> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST {
            return Err(damage("a message is too long"));
        }
        let mut bytes = std::mem::take(&mut self.message);
        bytes.clear();
        // Memory grows with the bytes that arrive, not with the length that was announced.
        while bytes.len() < length {
            let part = self.some(length - bytes.len())?;
            bytes.extend_from_slice(part);
        }
        let message = match postcard::take_from_bytes::<T>(&bytes) {
            Ok((message, [])) => message.check().map(|()| message).map_err(damage),
            _ => Err(damage("a message is malformed")),
        };
        if bytes.capacity() > KEPT {
            bytes = Vec::new();
        }
        self.message = bytes;
        message
    }

    /// The bytes of the stream so far: before compression, and as they arrived.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.counts
    }

    /// At least one and at most `most` of the next bytes. The end of the stream is an error.
    pub(crate) fn some(&mut self, most: usize) -> Result<&[u8]> {
        if self.used == self.frame.len() {
            self.next_frame()?;
        }
        let from = self.used;
        self.used = (from + most).min(self.frame.len());
        Ok(&self.frame[from..self.used])
    }

    /// Passes over the next `length` bytes.
    pub(crate) fn skip(&mut self, mut length: u64) -> Result<()> {
        while length > 0 {
            length -= self.some(length.min(MOST as u64) as usize)?.len() as u64;
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let part = self.some(into.len() - done)?;
            into[done..done + part.len()].copy_from_slice(part);
            done += part.len();
        }
        Ok(())
    }

    fn next_frame(&mut self) -> Result<()> {
        let mut head = [0; HEAD];
        self.from.read_exact(&mut head).map_err(unreadable)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let raw = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if length == 0 || length > MOST || raw > MOST {
            return Err(damage("a frame has an impossible length"));
        }
        self.stored.resize(length, 0);
        self.from.read_exact(&mut self.stored).map_err(unreadable)?;
        let mut digest = [0; DIGEST];
        self.from.read_exact(&mut digest).map_err(unreadable)?;
        if frame::digest(self.number, &head, &self.stored) != digest {
            return Err(damage("the checksum of a frame is wrong"));
        }
        self.number += 1;
        let around = (HEAD + DIGEST) as u64;
        self.counts.0 += around + if raw == 0 { length } else { raw } as u64;
        self.counts.1 += around + length as u64;
        self.used = 0;
        if raw == 0 {
            std::mem::swap(&mut self.stored, &mut self.frame);
            return Ok(());
        }
        self.unpacker.unpack(&self.stored, raw, &mut self.frame).map_err(|cause| match cause.kind() {
            io::ErrorKind::OutOfMemory => Error::failed("unpack a frame of the stream").because(cause),
            _ => damage("a frame cannot be unpacked"),
        })
    }
}

/// Checks how a stream begins. `otherwise` is the hint if this is not one.
fn check_start(start: [u8; START], otherwise: &str) -> Result<()> {
    let (magic, version) = start.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Error::failed("find a stream of snapshots in the input").hint(otherwise));
    }
    match version.try_into().map(u32::from_le_bytes) {
        Ok(VERSION) => Ok(()),
        Ok(version) => {
            let older = if version > VERSION { "update this pleach" } else { "update the pleach that sends" };
            Err(Error::failed(format!("read a stream of version {version}"))
                .hint(format!("this pleach reads version {VERSION}; {older}")))
        }
        Err(_) => Err(damage("it has no version")),
    }
}

/// The stream contradicts itself.
pub(crate) fn damage(why: &str) -> Error {
    Error::new(ErrorKind::Damage, "read the stream").because(io::Error::other(why.to_string()))
}

/// The stream contradicts itself about the entry at a path.
pub(crate) fn damage_of(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Damage, "receive").at(path).because(io::Error::other(why.to_string()))
}

fn unreadable(cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::failed("read the stream").because(io::Error::other("it ends too early")).with_code("cut-stream")
        }
        _ => Error::failed("read the stream").because(cause),
    }
}
