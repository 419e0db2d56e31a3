//! The types that the steps of a put share: options, context, new content, failures. No behaviour.

use crate::content::rewrite;
use crate::extents::address_space::SpaceId;
use crate::fs::filesystem::Kind;
use crate::monitor::Monitor;
use rustix::io::Errno;
use std::path::PathBuf;

/// How a stream replaces a file.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The file to share with; by default the present one at the destination.
    pub base: Option<PathBuf>,
    /// The expected size of the stream, in bytes.
    pub expect_size: Option<u64>,
    /// The expected BLAKE3 of the stream.
    pub expect_blake3: Option<[u8; 32]>,
    /// Let an empty stream replace a file that is not empty.
    pub allow_empty: bool,
    /// The memory limit of the index of the base's blocks, in bytes.
    pub index_memory: u64,
    /// The number of threads, for steps with several readers.
    pub threads: Option<usize>,
    /// Give the terminal to the command while it needs it, and stop this process group and end it by the user's keys
    /// as the terminal would. Only for a program that is one job of a shell. Otherwise a command that reads from the
    /// terminal waits until the run is cancelled.
    pub shares_terminal: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            base: None,
            expect_size: None,
            expect_blake3: None,
            allow_empty: false,
            index_memory: 64 << 20,
            threads: None,
            shares_terminal: false,
        }
    }
}

/// Why the new content could not be made.
#[derive(Debug)]
pub(super) enum Failure {
    /// The input cannot be read.
    Input(Errno),
    /// The base cannot be read.
    Base(Errno),
    /// The temporary file cannot be written.
    Output(Errno),
    /// The input is not as expected; the text explains.
    Unexpected(String),
    /// The input is empty, and the file, of this size, is not.
    Empty(u64),
    /// The command did not succeed; the text explains.
    Command(String),
    /// The user asked to stop.
    Interrupted,
}

/// The new content.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Content {
    pub(super) size: u64,
    /// Bytes read from the stream and from the base.
    pub(super) read: u64,
    pub(super) hash: Option<[u8; 32]>,
}

/// The context of all steps.
pub(super) struct Job<'a> {
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    /// The unit of sharing, in bytes.
    pub(super) block: u64,
    pub(super) kind: Kind,
    /// The address space of the destination.
    pub(super) space: SpaceId,
}

impl From<rewrite::Failure> for Failure {
    fn from(failure: rewrite::Failure) -> Failure {
        match failure {
            rewrite::Failure::Source(errno) => Failure::Base(errno),
            rewrite::Failure::Destination(errno) => Failure::Output(errno),
            rewrite::Failure::Cancelled => Failure::Interrupted,
        }
    }
}
