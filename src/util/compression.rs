//! Compression with zstd. Without memory, its functions return an error. Those of the library panic instead.

use std::io::{self, ErrorKind};
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_memory_allocation;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, ErrorCode, get_frame_content_size};

/// The most bytes that this many bytes become.
pub(crate) use zstd::zstd_safe::compress_bound as longest;

/// Packs bytes, again and again.
pub(crate) struct Packer(CCtx<'static>);

impl Packer {
    /// `level` is zstd's.
    ///
    /// # Errors
    /// Without memory.
    pub(crate) fn new(level: i32) -> io::Result<Packer> {
        let mut context = CCtx::try_create().ok_or(ErrorKind::OutOfMemory)?;
        context.set_parameter(CParameter::CompressionLevel(level)).map_err(error)?;
        Ok(Packer(context))
    }

    /// Replaces the content of `packed`.
    ///
    /// # Errors
    /// Without memory.
    pub(crate) fn pack(&mut self, raw: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
        packed.clear();
        packed.try_reserve(longest(raw.len()))?;
        self.0.compress2(packed, raw).map_err(error)?;
        Ok(())
    }
}

/// Unpacks bytes, again and again.
pub(crate) struct Unpacker(DCtx<'static>);

impl Unpacker {
    /// # Errors
    /// Without memory.
    pub(crate) fn new() -> io::Result<Unpacker> {
        Ok(Unpacker(DCtx::try_create().ok_or(ErrorKind::OutOfMemory)?))
    }

    /// Replaces the content of `raw`. The caller has checked that `length` is possible.
    ///
    /// # Errors
    /// Kind `InvalidData` if the packed bytes are not those of exactly `length` bytes. Kind `OutOfMemory` without
    /// memory.
    pub(crate) fn unpack(&mut self, packed: &[u8], length: usize, raw: &mut Vec<u8>) -> io::Result<()> {
        raw.clear();
        // A frame need not state its unpacked size. If it does, the size is checked before memory is reserved.
        let claimed = get_frame_content_size(packed).ok().flatten();
        if claimed.is_some_and(|claimed| claimed != length as u64) {
            return Err(ErrorKind::InvalidData.into());
        }
        raw.try_reserve_exact(length)?;
        self.0.decompress(raw, packed).map_err(error)?;
        if raw.len() == length { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
    }
}

fn error(code: ErrorCode) -> io::Error {
    let is_memory = code == (ZSTD_error_memory_allocation as ErrorCode).wrapping_neg();
    if is_memory { ErrorKind::OutOfMemory.into() } else { ErrorKind::InvalidData.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked_again() {
        let (mut packer, mut unpacker) = (Packer::new(3).unwrap(), Unpacker::new().unwrap());
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        for raw in [&b""[..], b"a", &[7; 100_000]] {
            packer.pack(raw, &mut packed).unwrap();
            assert!(packed.len() <= longest(raw.len()));
            unpacker.unpack(&packed, raw.len(), &mut unpacked).unwrap();
            assert_eq!(unpacked, raw);
        }
    }

    #[test]
    fn anything_but_the_bytes_of_that_length_is_invalid() {
        let (mut packer, mut unpacker) = (Packer::new(3).unwrap(), Unpacker::new().unwrap());
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        packer.pack(&[7; 100_000], &mut packed).unwrap();
        let cut = &packed[..packed.len() - 1];
        for (packed, length) in [(&packed[..], 99_999), (&packed, 100_001), (cut, 100_000), (b"no frame", 8)] {
            let error = unpacker.unpack(packed, length, &mut unpacked).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{} bytes as {length}", packed.len());
        }
        unpacker.unpack(&packed, 100_000, &mut unpacked).unwrap();
    }

    #[test]
    fn a_lack_of_memory_is_reported_as_such() {
        let mut unpacker = Unpacker::new().unwrap();
        let error = unpacker.unpack(b"a frame that does not state its length", usize::MAX, &mut Vec::new());
        assert_eq!(error.unwrap_err().kind(), ErrorKind::OutOfMemory);
        let code = (ZSTD_error_memory_allocation as ErrorCode).wrapping_neg();
        assert_eq!(super::error(code).kind(), ErrorKind::OutOfMemory);
    }
}
