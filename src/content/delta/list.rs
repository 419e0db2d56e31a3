//! Lists of a file's hashes, one hash per grain. The next version of the file is compared with the list, without
//! reading this version. `docs/format.md` has the format of lists; the repository stores and deletes them.
//!
//! A list only saves time. Damaged or truncated pages are ignored, and so is the list of another file: each page has a
//! checksum.

use crate::content::hash;
use crate::content::hash::tree::{Short, WINDOW};
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt as _;

const MAGIC: &[u8; 8] = b"pleachBL";
const VERSION: u32 = 1;
/// Bytes of the header: magic, version, grain, size, hash, checksum.
const HEADER: usize = 72;
const SHORT: usize = size_of::<Short>();

/// The grains that are accepted: powers of two, subtrees of the window.
const GRAINS: std::ops::RangeInclusive<u32> = 1024..=1 << 20;

/// A complete list.
#[derive(Debug)]
pub struct List {
    file: File,
    layout: Layout,
}

/// A list that is being written.
#[derive(Debug)]
pub struct NewList {
    file: File,
    layout: Layout,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    grain: usize,
    size: u64,
}

impl List {
    /// The list in `file`, if it is the list of a file with this size and BLAKE3.
    pub fn open(file: File, size: u64, hash: &[u8; 32]) -> Option<List> {
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).ok()?;
        let grain = u32::from_le_bytes(header[12..16].try_into().ok()?);
        let fits = GRAINS.contains(&grain) && grain.is_power_of_two();
        let layout = Layout { grain: grain as usize, size };
        (fits && header == layout.header(hash)).then_some(List { file, layout })
    }

    /// The bytes that each value covers.
    pub fn grain(&self) -> usize {
        self.layout.grain
    }

    /// The values of a window, read into `page`; `None` if they are damaged.
    pub fn window<'p>(&self, number: u64, page: &'p mut Vec<u8>) -> Option<&'p [Short]> {
        let count = self.layout.values(number);
        page.resize((count + 1) * SHORT, 0);
        self.file.read_exact_at(page, self.layout.offset(number)).ok()?;
        let (shorts, _) = page.as_chunks::<SHORT>();
        let (checksum, shorts) = shorts.split_last()?;
        (!shorts.is_empty() && *checksum == self.layout.checksum(number, shorts.as_flattened())).then_some(shorts)
    }
}

impl NewList {
    /// Begins the list of a file of this size in an empty file.
    pub fn new(file: File, size: u64, grain: usize) -> NewList {
        NewList { file, layout: Layout { grain, size } }
    }

    /// The bytes that each value covers.
    pub fn grain(&self) -> usize {
        self.layout.grain
    }

    /// Writes the values of a window. Windows may be written in any order by any thread.
    pub fn write(&self, number: u64, shorts: &[Short]) -> Result<()> {
        let mut page = shorts.as_flattened().to_vec();
        page.extend(self.layout.checksum(number, &page));
        self.file.write_all_at(&page, self.layout.offset(number))
    }

    /// Writes the header. Without it the list is not accepted.
    pub fn finish(&self, hash: &[u8; 32]) -> Result<()> {
        self.file.write_all_at(&self.layout.header(hash), 0)
    }
}

impl Layout {
    fn header(&self, hash: &[u8; 32]) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&(self.grain as u32).to_le_bytes());
        header[16..24].copy_from_slice(&self.size.to_le_bytes());
        header[24..56].copy_from_slice(hash);
        let checksum = hash::bytes(&header[..56]);
        header[56..].copy_from_slice(&checksum[..SHORT]);
        header
    }

    /// The number of values of a window.
    fn values(&self, number: u64) -> usize {
        let length = self.size.saturating_sub(number.saturating_mul(WINDOW)).min(WINDOW);
        (length as usize).div_ceil(self.grain)
    }

    /// The offset of a window's page. All pages but the last are full.
    fn offset(&self, number: u64) -> u64 {
        let page = (WINDOW as usize / self.grain + 1) * SHORT;
        HEADER as u64 + number.saturating_mul(page as u64)
    }

    fn checksum(&self, number: u64, values: &[u8]) -> Short {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.size.to_le_bytes()).update(&number.to_le_bytes()).update(values);
        let mut short = Short::default();
        short.copy_from_slice(&hasher.finalize().as_bytes()[..SHORT]);
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 2 * WINDOW + 5000;
    const HASH: [u8; 32] = [7; 32];

    fn written() -> File {
        let file = tempfile::tempfile().unwrap();
        let list = NewList::new(file.try_clone().unwrap(), SIZE, 4096);
        for number in [2_u64, 0, 1] {
            let count = if number == 2 { 2 } else { 256 };
            list.write(number, &vec![[number as u8; 16]; count]).unwrap();
        }
        list.finish(&HASH).unwrap();
        file
    }

    #[test]
    fn what_was_written_is_read() {
        let list = List::open(written(), SIZE, &HASH).unwrap();
        let mut page = Vec::new();
        for number in 0..3 {
            let shorts = list.window(number, &mut page).unwrap();
            assert_eq!(shorts.len(), if number == 2 { 2 } else { 256 });
            assert!(shorts.iter().all(|short| *short == [number as u8; 16]));
        }
        assert!(list.window(3, &mut page).is_none());
    }

    #[test]
    fn a_list_of_another_file_or_none_at_all_is_passed_over() {
        assert!(List::open(written(), SIZE + 1, &HASH).is_none());
        assert!(List::open(written(), SIZE, &[8; 32]).is_none());
        assert!(List::open(tempfile::tempfile().unwrap(), SIZE, &HASH).is_none());
    }

    #[test]
    fn every_altered_byte_costs_one_page_and_no_more() {
        let file = written();
        let length = file.metadata().unwrap().len();
        for at in (0..length).step_by(37) {
            let file = written();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
            let Some(list) = List::open(file, SIZE, &HASH) else {
                assert!(at < HEADER as u64);
                continue;
            };
            let lost = (0..3).filter(|&number| list.window(number, &mut Vec::new()).is_none()).count();
            assert_eq!(lost, 1, "byte {at}");
        }
    }

    #[test]
    fn a_list_that_was_cut_is_good_up_to_there() {
        let file = written();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        let list = List::open(file, SIZE, &HASH).unwrap();
        assert!(list.window(1, &mut Vec::new()).is_some());
        assert!(list.window(2, &mut Vec::new()).is_none());
    }
}
