//! The stream in which snapshots travel between repositories: `docs/stream.md` describes it.
//!
//! - `output`, `input`: frames, each with a checksum. Together they are one sequence of bytes.
//! - `op`: the operations in this sequence, each with its length. `check`: what they may say.
//!
//! Nothing that is read is trusted: a length is compared with a limit before memory is reserved for it.

mod check;
mod devices;
mod digest;
mod frame;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod input;
mod op;
mod output;

pub(crate) use devices::DevicePairs;
pub(crate) use digest::RecordDigest;
pub(crate) use frame::{MAGIC, VERSION};
pub(crate) use input::{Input, damage, damage_of};
pub(crate) use op::{Begin, Content, Digest, Failure, Offered, Op, Place, Position, Reply, Side, State, Xattrs};
pub(crate) use output::{Output, Sent};
