//! The manifest of a snapshot: all data that the tree cannot keep, sorted and streamed. `docs/format.md` has its
//! layout.
//!
//! [`Writer`] takes the records in their order. [`Reader`] returns them as a stream ([`Items`]) or one directory at a
//! time ([`DirectoryCursor`]). Neither holds more than a few blocks and the index.

mod address;
mod block;
mod blocks;
mod cache;
mod cursor;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod index;
mod items;
mod layout;
mod limits;
mod names;
mod older;
mod order;
mod packed;
mod reader;
mod record;
mod stored_file;
mod wire;
mod writer;

pub use address::Address;
pub(crate) use cursor::DirectoryCursor;
#[cfg(test)]
pub(crate) use index::lookups;
pub(crate) use items::Items;
pub use layout::VERSION;
pub(crate) use limits::{PATH as LONGEST_PATH, attributes as deserialize_attributes};

pub(crate) use order::{compare_paths, is_name, is_path, may_follow, shared_length};
pub(crate) use packed::RecordKey;
pub use reader::Reader;
pub(crate) use reader::Summary;
pub(crate) use record::shorten;
pub use record::{Body, Directory, Entry, FileBody, Header, Item, Meta, Origin, Stored, Time, Totals};
pub use writer::Writer;

#[cfg(test)]
mod tests;
