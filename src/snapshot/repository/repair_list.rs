//! Reads the list of a repair, record by record. It may come from elsewhere, so its records have bounds: neither their
//! length nor their number costs much memory or time.

use std::io::{self, BufRead, BufReader, Read};

/// The longest record, in bytes: a path and a time.
const LONGEST: u64 = 4 << 20;
/// The most records. A repair changes fewer directories.
const MOST: u64 = 1 << 20;

/// The records of a list.
pub(super) struct Records<R> {
    list: BufReader<R>,
    record: Vec<u8>,
    seen: u64,
}

impl<R: Read> Records<R> {
    pub(super) fn new(list: R) -> Records<R> {
        Records { list: BufReader::new(list), record: Vec::new(), seen: 0 }
    }

    /// The next record, without its NUL. `None` at the end: a record without its NUL is incomplete.
    ///
    /// # Errors
    /// `InvalidData` if a record is longer, or the list has more of them, than a repair writes.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.record.clear();
        (&mut self.list).take(LONGEST + 1).read_until(0, &mut self.record)?;
        let invalid = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        match self.record.split_last() {
            Some((0, _)) if self.seen == MOST => invalid("it has too many records; the rest is ignored"),
            Some((0, record)) => {
                self.seen += 1;
                Ok(Some(record))
            }
            Some(_) if self.record.len() as u64 > LONGEST => {
                invalid("one of its records is too long; the rest is ignored")
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_at_their_nul_and_an_incomplete_one_is_dropped() {
        let mut records = Records::new(&b"a\0\0bc\0d"[..]);
        for expected in [Some(&b"a"[..]), Some(b""), Some(b"bc"), None] {
            assert_eq!(records.next().unwrap(), expected);
        }
    }

    #[test]
    fn a_list_without_end_is_not_read_to_its_end() {
        let long = Records::new(io::repeat(b'A')).next().unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidData);
        let mut many = Records::new(io::repeat(0));
        for _ in 0..MOST {
            assert_eq!(many.next().unwrap(), Some(&b""[..]));
        }
        assert_eq!(many.next().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
