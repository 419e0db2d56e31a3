//! BLAKE3 of content. One entry for each question:
//!
//! | question | answer |
//! |---|---|
//! | the hash of these bytes | [`bytes`] |
//! | the hash of a file | [`file`](file()), and [`any_file`] whatever its holes |
//! | the hash of a file as its device returns it | `on_disk` |
//! | the hashes of several versions of a file, which read their shared extents once | `versions` |
//! | the hash of content that arrives from front to back | `StreamHash` |
//! | the hash of content that arrives in windows, in any order | [`tree`] |
//! | whether a file has a hash at all | [`is_hashed`], [`is_too_sparse`] |
//!
//! `same_content` compares files. The checksums of formats are next to the formats.

mod disk;
mod file;
mod limits;
mod stream;
pub mod tree;
pub(crate) mod versions;

pub(crate) use disk::on_disk;
pub use file::{Hashed, any_file, file};
pub use limits::{is_hashed, is_too_sparse};
pub(crate) use stream::StreamHash;

/// The hash of these bytes.
pub fn bytes(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}
