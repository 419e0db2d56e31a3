//! The receiver's replies on their way from another host. Their beginning shows whether a receiver answers at all, and
//! which version of the stream it knows.

use crate::snapshot::stream::{MAGIC, VERSION};
use crate::util::mutex::lock;
use std::io::{BufRead, Error, ErrorKind, Read, Result};
use std::sync::Mutex;

/// The length of the beginning.
const START: usize = MAGIC.len() + 4;
/// How much of something else is kept.
const SHOWN: usize = 200;

/// The first bytes that arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum First {
    /// Nothing.
    #[default]
    Nothing,
    /// The beginning of replies.
    Replies,
    /// Replies of another version.
    Version(u32),
    /// Something else.
    Other(Vec<u8>),
}

/// Replies that are being read.
pub(super) struct Replies<'a, R> {
    from: R,
    start: Vec<u8>,
    /// How much of the start was passed on. `None`: it is not complete.
    passed: Option<usize>,
    first: &'a Mutex<First>,
}

impl<'a, R: BufRead> Replies<'a, R> {
    /// Replies that note in `first` how they begin.
    pub(super) fn new(from: R, first: &'a Mutex<First>) -> Replies<'a, R> {
        Replies { from, start: Vec::new(), passed: None, first }
    }

    /// Reads the start.
    fn begin(&mut self) -> Result<()> {
        let refuse = |first: First| {
            *lock(self.first) = first;
            Err(Error::new(ErrorKind::InvalidData, "it does not begin as replies do"))
        };
        while self.start.len() < START {
            let buffer = self.from.fill_buf()?;
            let is_end = buffer.is_empty();
            let count = buffer.len().min(START - self.start.len());
            let before = self.start.len();
            self.start.extend_from_slice(&buffer[..count]);
            let known = self.start.len().min(MAGIC.len());
            if self.start[..known] != MAGIC[..known] || is_end && known > 0 {
                self.start.truncate(before);
                self.start.extend_from_slice(&buffer[..buffer.len().min(SHOWN)]);
                return refuse(First::Other(std::mem::take(&mut self.start)));
            }
            if is_end {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.from.consume(count);
        }
        let version = self.start[MAGIC.len()..].try_into().map_or(0, u32::from_le_bytes);
        if version != VERSION {
            return refuse(First::Version(version));
        }
        *lock(self.first) = First::Replies;
        self.passed = Some(0);
        Ok(())
    }
}

impl<R: BufRead> Read for Replies<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.passed.is_none() {
            self.begin()?;
        }
        match &mut self.passed {
            Some(passed) if *passed < self.start.len() => {
                let count = buffer.len().min(self.start.len() - *passed);
                buffer[..count].copy_from_slice(&self.start[*passed..*passed + count]);
                *passed += count;
                Ok(count)
            }
            _ => self.from.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (First, Option<Vec<u8>>) {
        let first = Mutex::default();
        let mut out = Vec::new();
        let result = Replies::new(bytes, &first).read_to_end(&mut out);
        (first.into_inner().unwrap(), result.ok().map(|_| out))
    }

    #[test]
    fn replies_pass_and_anything_else_is_noted() {
        let start = |version: u32| [&MAGIC[..], &version.to_le_bytes(), b"rest"].concat();
        assert_eq!(read(&start(VERSION)), (First::Replies, Some(start(VERSION))));
        assert_eq!(read(&start(VERSION + 1)), (First::Version(VERSION + 1), None));
        assert_eq!(read(b""), (First::Nothing, None));
        assert_eq!(read(b"plea"), (First::Other(b"plea".to_vec()), None));
        let noise = [b"Welcome to nas!\n", &start(VERSION)[..]].concat();
        assert_eq!(read(&noise), (First::Other(noise.clone()), None));
    }
}
