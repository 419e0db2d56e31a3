//! The layout of a frame: a head, the payload, a BLAKE3 of both and of the frame's number.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | the length of the payload, little-endian |
//! | 4 | its length after unpacking; 0: it is not packed |
//! | | the payload; packed, it is a frame of zstd |
//! | 32 | BLAKE3 of the frame's number (u64, little-endian, from 0) and of everything before |

/// The version of the stream.
pub(crate) const VERSION: u32 = 1;
/// The first bytes of a stream. The version follows, as a little-endian u32.
pub(crate) const MAGIC: [u8; 8] = *b"pleachST";
/// The most bytes in a frame, unpacked.
pub(super) const MOST: usize = 1 << 20;
pub(super) const HEAD: usize = 8;
pub(super) const DIGEST: usize = 32;

/// The digest of a frame.
pub(super) fn digest(number: u64, head: &[u8], payload: &[u8]) -> [u8; DIGEST] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes()).update(head).update(payload);
    *hasher.finalize().as_bytes()
}
