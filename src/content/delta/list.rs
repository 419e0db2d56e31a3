//! Lists of a file's hashes: the value of each grain in the BLAKE3 tree of the file. The next version is compared with
//! the list, without reading this version, and takes over the values of grains that have not changed.
//! `docs/format.md` has the format of lists; the repository stores and deletes them.
//!
//! A list only saves time. It proves itself: the values are those of the file if the root of their tree is the file's
//! hash. So a damaged or truncated list, and the list of another file, are ignored.

use crate::content::hash::tree::{self, Subtree, WINDOW, Whole};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const MAGIC: &[u8; 8] = b"pleachBL";
const VERSION: u32 = 2;
/// Bytes of the header: magic, version, grain, size, hash.
const HEADER: usize = 56;
const VALUE: usize = size_of::<Subtree>();

/// The grains that are accepted: powers of two, subtrees of the window.
const GRAINS: std::ops::RangeInclusive<u32> = 1024..=1 << 20;

/// A complete list.
#[derive(Debug)]
pub struct List {
    file: File,
    layout: Layout,
}

/// A list that is being written. It only saves time, so an error while it is written is not one of the run: the list is
/// never complete then.
#[derive(Debug)]
pub struct NewList {
    file: File,
    layout: Layout,
    has_failed: AtomicBool,
    complete: OnceLock<[u8; 32]>,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    grain: usize,
    size: u64,
}

impl List {
    /// The list in `file`, if it is the list of a file with this size and BLAKE3. Files of one window have none.
    pub fn open(file: File, size: u64, hash: &[u8; 32]) -> Option<List> {
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).ok()?;
        let grain = u32::from_le_bytes(header[12..16].try_into().ok()?);
        let fits = GRAINS.contains(&grain) && grain.is_power_of_two() && size > WINDOW;
        let layout = Layout { grain: grain as usize, size };
        let list = (fits && header == layout.header(hash)).then_some(List { file, layout })?;
        (list.root()? == *hash).then_some(list)
    }

    /// The root of the tree of all values.
    fn root(&self) -> Option<Subtree> {
        let (mut whole, mut values) = (Whole::default(), Vec::new());
        for number in 0..self.layout.size.div_ceil(WINDOW) {
            let values = self.window(number, &mut values)?;
            whole.add(number, tree::merge(values, self.layout.length(number), self.layout.grain as u64));
        }
        whole.finish()
    }

    /// The bytes that each value covers.
    pub fn grain(&self) -> usize {
        self.layout.grain
    }

    /// The values of a window, read into `buffer`; `None` if they cannot be read.
    pub fn window<'b>(&self, number: u64, buffer: &'b mut Vec<Subtree>) -> Option<&'b [Subtree]> {
        buffer.resize(self.layout.values(number), Subtree::default());
        self.file.read_exact_at(buffer.as_flattened_mut(), self.layout.offset(number)).ok()?;
        (!buffer.is_empty()).then_some(buffer)
    }
}

impl NewList {
    /// Begins the list of a file of this size in an empty file.
    pub fn new(file: File, size: u64, grain: usize) -> NewList {
        let layout = Layout { grain, size };
        NewList { file, layout, has_failed: AtomicBool::new(false), complete: OnceLock::new() }
    }

    /// The bytes that each value covers.
    pub fn grain(&self) -> usize {
        self.layout.grain
    }

    /// Writes the values of a window. Windows may be written in any order by any thread.
    pub fn write(&self, number: u64, values: &[Subtree]) {
        if self.file.write_all_at(values.as_flattened(), self.layout.offset(number)).is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
    }

    /// Writes the header after all windows, with the hash of the file. Without it the list is not accepted.
    pub fn finish(&self, hash: &[u8; 32]) {
        if !self.has_failed.load(Ordering::Relaxed) && self.file.write_all_at(&self.layout.header(hash), 0).is_ok() {
            let _ = self.complete.set(*hash);
        }
    }

    /// The hash of the file, if the list is complete.
    pub fn complete(&self) -> Option<&[u8; 32]> {
        self.complete.get()
    }
}

impl Layout {
    fn header(&self, hash: &[u8; 32]) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&(self.grain as u32).to_le_bytes());
        header[16..24].copy_from_slice(&self.size.to_le_bytes());
        header[24..].copy_from_slice(hash);
        header
    }

    /// The length of a window; 0 behind the end.
    fn length(&self, number: u64) -> u64 {
        self.size.saturating_sub(number.saturating_mul(WINDOW)).min(WINDOW)
    }

    /// The number of values of a window.
    fn values(&self, number: u64) -> usize {
        (self.length(number) as usize).div_ceil(self.grain)
    }

    /// The offset of a window's values. All windows but the last are full.
    fn offset(&self, number: u64) -> u64 {
        number.saturating_mul((WINDOW as usize / self.grain * VALUE) as u64).saturating_add(HEADER as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 2 * WINDOW + 5000;

    fn content() -> Vec<u8> {
        (0..SIZE).map(|n| (n % 251) as u8).collect()
    }

    fn hash() -> [u8; 32] {
        *blake3::hash(&content()).as_bytes()
    }

    fn written() -> File {
        let (file, content) = (tempfile::tempfile().unwrap(), content());
        let list = NewList::new(file.try_clone().unwrap(), SIZE, 4096);
        for number in [2_u64, 0, 1] {
            list.write(number, &values(&content, number));
        }
        list.finish(&hash());
        assert_eq!(list.complete(), Some(&hash()));
        file
    }

    fn values(content: &[u8], number: u64) -> Vec<Subtree> {
        let window = content.chunks(WINDOW as usize).nth(number as usize).unwrap();
        tree::grains(window, number * WINDOW, 4096).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let list = List::open(written(), SIZE, &hash()).unwrap();
        let mut buffer = Vec::new();
        for number in 0..3 {
            assert_eq!(list.window(number, &mut buffer).unwrap(), values(&content(), number));
        }
        assert!(list.window(3, &mut buffer).is_none() && list.window(u64::MAX, &mut buffer).is_none());
    }

    #[test]
    fn a_list_that_could_not_be_written_is_not_complete() {
        let list = NewList::new(tempfile::tempfile().unwrap(), SIZE, 4096);
        // No file reaches so far.
        list.write(1 << 50, &values(&content(), 0));
        list.finish(&hash());
        assert_eq!(list.complete(), None);
    }

    #[test]
    fn a_list_of_another_file_or_none_at_all_is_passed_over() {
        assert!(List::open(written(), SIZE + 1, &hash()).is_none());
        assert!(List::open(written(), SIZE, &[8; 32]).is_none());
        assert!(List::open(tempfile::tempfile().unwrap(), SIZE, &hash()).is_none());
    }

    #[test]
    fn a_list_with_an_altered_byte_is_not_believed() {
        let (file, hash) = (written(), hash());
        let length = file.metadata().unwrap().len();
        let is_believed = || List::open(file.try_clone().unwrap(), SIZE, &hash).is_some();
        for at in (0..length).step_by(137).chain(0..HEADER as u64) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
            assert!(!is_believed(), "byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
        assert!(is_believed());
    }

    #[test]
    fn a_list_that_was_cut_is_not_believed() {
        let file = written();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        assert!(List::open(file, SIZE, &hash()).is_none());
    }
}
