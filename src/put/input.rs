//! The input: its type and its position.

use super::command::Producer;
use super::job::Failure;
use crate::error::{Advice, Error, Result};
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use rustix::fs::{FileType, OFlags, SeekFrom};
use std::os::fd::BorrowedFd;

/// The input of a put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a> {
    pub(super) fd: BorrowedFd<'a>,
    pub(super) kind: FileType,
    /// Set if the input is a regular file with data left to read that can be read at any offset.
    pub(super) file: Option<File>,
    /// The command that writes the input.
    pub(super) producer: Option<&'a Producer>,
    /// The size of the input, if anyone knows it.
    expected: Option<u64>,
}

/// A regular file as the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub(super) status: Status,
    /// The offset at which reading begins.
    pub(super) at: u64,
}

impl<'a> Input<'a> {
    /// Examines an input; `expected` is its size according to the user.
    ///
    /// # Errors
    /// If the input is surely a mistake: a terminal, a directory, or nothing at all.
    pub(super) fn of(fd: BorrowedFd<'a>, expected: Option<u64>) -> Result<Input<'a>> {
        let failed = |errno| Error::failed("read the input").because(errno).hint("nothing has changed");
        let status = Status::of(fd).map_err(failed)?;
        let kind = status.file_type();
        match kind {
            FileType::CharacterDevice if rustix::termios::isatty(fd) => {
                let error = Error::usage("take the new content from a terminal");
                return Err(error.advise(Advice::PipeInput));
            }
            FileType::Directory => {
                return Err(Error::usage("read the input").hint("it is a directory"));
            }
            // Rust's runtime opens this device for a program that starts without a standard input: the intended content
            // is missing.
            FileType::CharacterDevice if status.rdev == (1, 3) && is_read_write(fd) => {
                let error = Error::failed("read the input").hint("it is closed").advise(Advice::GiveEmptyInput);
                return Err(error);
            }
            _ => {}
        }
        let at = rustix::fs::seek(fd, SeekFrom::Current(0));
        // Files of size 0 may have content all the same, for example in /proc.
        let file = match (kind, at) {
            (FileType::RegularFile, Ok(at)) if at < status.size => Some(File { status, at }),
            _ => None,
        };
        let expected = expected.or(file.map(|file: File| file.status.size - file.at));
        Ok(Input { fd, kind, file, producer: None, expected })
    }

    /// The output of a command.
    pub(super) fn of_command(producer: &'a Producer, expected: Option<u64>) -> Option<Input<'a>> {
        let fd = producer.output()?;
        Some(Input { fd, kind: FileType::Fifo, file: None, producer: Some(producer), expected })
    }

    /// Reports that the first byte has arrived. Before, a program at the other end may be asking for a password.
    pub(super) fn begins(&self, monitor: &dyn Monitor) {
        // A stream has no entries, whatever its size.
        monitor.phase("putting", Some(Amount { files: 0, bytes: self.expected.unwrap_or(0) }));
    }

    /// Fails if somebody has written to the input file, or truncated it, since it was opened.
    pub(super) fn assert_untouched(&self) -> std::result::Result<(), Failure> {
        let Some(file) = self.file else { return Ok(()) };
        if Status::of(self.fd).is_ok_and(|now| now.is_untouched_since(&file.status)) {
            Ok(())
        } else {
            Err(Failure::Unexpected("the input was changed while it was read".to_string()))
        }
    }

    /// Moves the input to the position it would have after reading: other processes may continue there.
    pub(super) fn is_taken(&self, end: u64) {
        // Nothing is lost if it cannot be moved.
        let _ = rustix::fs::seek(self.fd, SeekFrom::Start(end));
    }
}

fn is_read_write(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR)
}
