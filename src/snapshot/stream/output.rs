//! Writes a stream: bytes are collected into frames.

use super::frame::{self, HEAD, MAGIC, MOST, VERSION};
use crate::error::{Error, Result};
use crate::util::compression::Packer;
use serde::Serialize;
use std::io::Write;

/// zstd's level: networks are slower than this, and memory buses are not.
const LEVEL: i32 = 1;
/// After a frame that could not be made smaller, this many are not packed.
const PAUSE: u32 = 15;

/// The bytes that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Bytes of the stream before compression, with its frames.
    pub(crate) stream_bytes: u64,
    /// Bytes that were written.
    pub(crate) wire_bytes: u64,
}

/// A stream that is being written.
pub(crate) struct Output<W> {
    to: W,
    frame: Vec<u8>,
    packed: Vec<u8>,
    packer: Option<Packer>,
    pause: u32,
    number: u64,
    message: Vec<u8>,
    sent: Sent,
}

impl<W: Write> Output<W> {
    /// Begins a stream. `packs`: frames are compressed where that makes them smaller.
    pub(crate) fn begin(to: W, packs: bool) -> Result<Output<W>> {
        let packer = if packs { Packer::new(LEVEL).ok() } else { None };
        let frame = Vec::with_capacity(MOST);
        let (packed, message) = (Vec::new(), Vec::new());
        let mut output = Output { to, frame, packed, packer, pause: 0, number: 0, message, sent: Sent::default() };
        let start = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        output.put(&start)?;
        output.sent.stream_bytes += start.len() as u64;
        Ok(output)
    }

    /// The bytes so far.
    pub(crate) fn sent(&self) -> Sent {
        self.sent
    }

    /// Appends an operation or a reply. Data is followed by [`append`](Self::append).
    pub(crate) fn push(&mut self, message: &impl Serialize) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.message);
        bytes.clear();
        postcard::to_io(message, &mut bytes).map_err(|_| Error::failed("encode a part of the stream"))?;
        let length = u32::try_from(bytes.len()).map_err(|_| Error::failed("send an entry that is so long"))?;
        self.append(&length.to_le_bytes())?;
        self.append(&bytes)?;
        self.message = bytes;
        Ok(())
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = MOST - self.frame.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.frame.extend_from_slice(now);
            bytes = later;
            if self.frame.len() == MOST {
                self.end_frame()?;
            }
        }
        Ok(())
    }

    /// Appends `length` bytes, at most [`MOST`], which `fill` puts in their place.
    pub(crate) fn append_with(&mut self, length: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        if length > MOST - self.frame.len() {
            self.end_frame()?;
        }
        let from = self.frame.len();
        self.frame.resize(from + length, 0);
        fill(&mut self.frame[from..])?;
        if self.frame.len() == MOST { self.end_frame() } else { Ok(()) }
    }

    /// Writes everything so far.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.end_frame()?;
        self.to.flush().map_err(cannot_send)
    }

    fn end_frame(&mut self) -> Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let frame = std::mem::take(&mut self.frame);
        let packed = std::mem::take(&mut self.packed);
        let packed = self.pack(&frame, packed);
        let (payload, raw) = match &packed {
            Ok(packed) => (&packed[..], frame.len() as u32),
            Err(_) => (&frame[..], 0),
        };
        let head = [(payload.len() as u32).to_le_bytes(), raw.to_le_bytes()].concat();
        let digest = frame::digest(self.number, &head, payload);
        self.number += 1;
        self.sent.stream_bytes += (HEAD + frame.len() + digest.len()) as u64;
        self.put(&head)?;
        self.put(payload)?;
        self.put(&digest)?;
        self.packed = packed.unwrap_or_else(|buffer| buffer);
        self.frame = frame;
        self.frame.clear();
        Ok(())
    }

    /// The packed frame in `buffer`. If it is not worth it, the buffer alone.
    fn pack(&mut self, frame: &[u8], mut buffer: Vec<u8>) -> std::result::Result<Vec<u8>, Vec<u8>> {
        let Some(packer) = &mut self.packer else { return Err(buffer) };
        if self.pause > 0 {
            self.pause -= 1;
            return Err(buffer);
        }
        match packer.pack(frame, &mut buffer) {
            Ok(()) if buffer.len() < frame.len() / 16 * 15 => Ok(buffer),
            _ => {
                self.pause = if frame.len() == MOST { PAUSE } else { 0 };
                Err(buffer)
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.sent.wire_bytes += bytes.len() as u64;
        self.to.write_all(bytes).map_err(cannot_send)
    }
}

fn cannot_send(cause: std::io::Error) -> Error {
    Error::failed("send the stream").because(cause).with_code("cannot-send")
}
