//! A fuzz target for lists of finished files.

use super::finished_list::{Finished, List};
use crate::fs::status::Status;
use crate::util::fuzz::{Source, file};

/// The first bytes of a list.
const BEGINNING: &[u8; 12] = b"pleachFI\x02\0\0\0";

/// A list as it is, and a list of the records in strings, each with its checksum.
pub(crate) fn finished(bytes: &[u8]) {
    read(bytes, &[]);
    let mut source = Source::new(bytes);
    let (mut list, mut records) = (BEGINNING.to_vec(), Vec::new());
    while !source.is_empty() {
        let record = source.bytes();
        list.extend((record.len() as u32).to_le_bytes());
        list.extend(record);
        list.extend(&blake3::hash(record).as_bytes()[..8]);
        records.push(record);
    }
    read(&list, records.get(1..).unwrap_or_default());
}

/// Reads a list. The file of each sound record before the first unsound one is found, and no other one.
fn read(bytes: &[u8], records: &[&[u8]]) {
    const MOST: usize = 64;
    let Some(list) = List::open(file(bytes), MOST) else { return };
    let sound = records.iter().map_while(|record| postcard::from_bytes::<Finished>(record).ok());
    for finished in sound.take(MOST) {
        let Finished { ino, size, mtime, ctime, filesystem, .. } = finished;
        let status = Status { ino, size, mtime, ctime, ..Status::default() };
        let found: Vec<_> = list.find(&status, filesystem).collect();
        let is_same = |other: &Finished| (other.ino, other.size, other.ctime) == (ino, size, ctime);
        assert!(found.iter().all(is_same));
        assert!(found.contains(&finished) || ctime >= list.header.created || found.is_empty());
        let other = Status { size: !size, ..status };
        assert_eq!(list.find(&other, filesystem).count(), 0);
    }
}
