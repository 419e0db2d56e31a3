//! Reads extended attributes, which say their length only when they are read.

use rustix::io::{Errno, Result};

/// The limit of the kernel for the list of names and for each value (xattr(7)).
pub(super) const LONGEST: usize = 1 << 16;

/// The bytes that a call puts into a buffer, which is made larger if they do not fit.
pub(super) fn fill(call: impl Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 1024];
    loop {
        match call(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < LONGEST => buffer.resize(LONGEST, 0),
            Err(error) => return Err(error),
        }
    }
}
