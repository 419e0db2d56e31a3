//! Helpers that do not depend on files or filesystems: text for people, paths as bytes, threads, locks, digests,
//! compression, child processes.

pub(crate) mod bits;
pub(crate) mod compression;
pub(crate) mod digest;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
pub(crate) mod mutex;
pub(crate) mod panic;
pub(crate) mod parallel;
pub(crate) mod path;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod semaphore;
pub(crate) mod tail;
pub(crate) mod text;
pub(crate) mod time_zone;
