//! Copies the content of one file into another.
//!
//! [`content`](content()) is the entry point: it clones if possible, and otherwise copies with the chosen engine. If an
//! engine refuses, the next one continues where it stopped. Holes stay holes, and reserved space stays reserved. What a
//! pair of filesystems refused once is remembered and not tried again. `docs/design/engines.md` has the reasons.

mod batches;
mod choose;
mod content;
mod data;
mod endless;
mod engine;
pub mod engines;
mod file_copy;
mod held;
mod reason;
mod refusals;
mod reserved;
pub mod small_files;
mod strategy;
mod types;

pub use choose::{goes_by_ring, ring_pays};
pub use content::{content, content_hashing_copies, content_preparing_reads};
pub use data::data;
pub use engine::Engine;
pub use file_copy::FileCopy;
pub use held::Held;
pub use reason::Reason;
pub use refusals::Refusal;
pub use strategy::{CloneError, Strategy};
pub use types::{Copied, CopyError, Request, is_fatal};
