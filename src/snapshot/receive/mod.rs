//! Receives snapshots from a stream. Nothing in the stream is trusted:
//!
//! - `stream::check`: what a single operation may say. `sequence`: the order of the records.
//! - `sources`: opens files with content, only regular ones below the staging tree or the base. `links`: further names
//!   of inodes.
//! - `tree`: the directories of the tree. `entry`: one entry. `content`: the content of a file.
//! - `inherited`: entries that the base has, cloned by many threads.
//! - `records`: the manifest. `journal`: how far the snapshot was received.
//!
//! `receiver` does what one operation wants, `transfer` receives a snapshot, and `serve` all of a stream.

mod content;
mod entry;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod inherited;
mod journal;
mod links;
mod receiver;
mod records;
mod sequence;
mod serve;
mod sources;
mod transfer;
mod tree;

pub(crate) use serve::serve;
pub use serve::{Options, Stats, receive};
