//! The subject of a copy: two open files, and what the copy works with. How to copy is in `types::Request`.

use super::strategy::Strategy;
use crate::fs::status::Status;
use crate::monitor::Monitor;
use std::os::fd::BorrowedFd;

/// The two files of a copy, and what it works with.
#[derive(Clone, Copy)]
pub struct FileCopy<'a> {
    /// The file to read.
    pub source: BorrowedFd<'a>,
    /// The status of the source after opening.
    pub status: &'a Status,
    /// The empty file that gets the content, open for reading and writing, without `O_APPEND`.
    pub destination: BorrowedFd<'a>,
    /// The known abilities of the engines between these filesystems.
    pub strategy: &'a Strategy,
    /// Counts all bytes as they arrive, and can stop the copy.
    pub monitor: &'a dyn Monitor,
}
