//! Helpers that know neither files nor filesystems: text for people, short hashes, threads, locks.

pub(crate) mod digest;
pub(crate) mod mutex;
pub(crate) mod parallel;
pub(crate) mod semaphore;
pub mod text;
