//! Helpers that know neither files nor filesystems: text for people, threads, locks.

pub(crate) mod mutex;
pub(crate) mod parallel;
pub(crate) mod semaphore;
pub mod text;
