//! The tree item for a file at an offset: content in the tree itself, or a part of a data extent. A hole may also have
//! an item, which is ignored.
//!
//! Source: `include/uapi/linux/btrfs_tree.h` (`struct btrfs_file_extent_item`).

use super::tree::{EXTENT_DATA, Item};

/// `BTRFS_FILE_EXTENT_INLINE`.
const INLINE: u8 = 0;
/// `BTRFS_FILE_EXTENT_REG`.
const REGULAR: u8 = 1;
/// The offset of content in its item, if the content is in the tree.
const INLINE_CONTENT: usize = 21;

/// The content of a file at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileExtent {
    /// Content in the tree itself: this many bytes there.
    Inline(u64),
    /// A part of a data extent.
    Data(ExtentPart),
}

/// A part of a data extent that a file uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentPart {
    /// The offset in the file, in bytes.
    pub logical: u64,
    /// The address of the extent.
    pub extent: u64,
    /// Bytes that the whole extent occupies on the disk.
    pub disk: u64,
    /// Bytes of content in the whole extent.
    pub decoded: u64,
    /// The offset of the part in that content.
    pub offset: u64,
    /// Bytes of the part.
    pub length: u64,
    /// The extent has written content and is not only reserved.
    pub written: bool,
    /// The extent is compressed.
    pub compressed: bool,
    /// It is encrypted, or encoded in a way that no kernel uses yet.
    pub foreign: bool,
}

impl FileExtent {
    /// Reads an item. `None` for a hole, for an item of another kind, and for an item that is too short.
    pub(crate) fn read(item: &Item<'_>) -> Option<FileExtent> {
        if item.key.kind != EXTENT_DATA {
            return None;
        }
        let kind = item.u8(20)?;
        if kind == INLINE {
            return Some(FileExtent::Inline((item.data.len() - INLINE_CONTENT) as u64));
        }
        let part = ExtentPart {
            logical: item.key.offset,
            extent: item.u64(21).filter(|address| *address != 0)?,
            disk: item.u64(29)?,
            decoded: item.u64(8)?,
            offset: item.u64(37)?,
            length: item.u64(45)?,
            written: kind == REGULAR,
            compressed: item.u8(16)? != 0,
            foreign: item.u8(17)? != 0 || item.u8(18)? != 0 || item.u8(19)? != 0,
        };
        Some(FileExtent::Data(part))
    }

    /// The part of a data extent. `None` for content in the tree.
    pub(crate) fn data(self) -> Option<ExtentPart> {
        match self {
            FileExtent::Data(part) => Some(part),
            FileExtent::Inline(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::btrfs::tree::Key;

    fn read(data: &[u8]) -> Option<FileExtent> {
        FileExtent::read(&Item { key: Key::new(257, EXTENT_DATA, 8192), data })
    }

    /// 1024 bytes, from offset 512 of an extent at 4096 that occupies 12 KiB and has 16 KiB of content.
    fn item() -> [u8; 53] {
        let mut data = [0; 53];
        data[20] = REGULAR;
        for (at, number) in [(8, 16384u64), (21, 4096), (29, 12288), (37, 512), (45, 1024)] {
            data[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        data
    }

    const PART: ExtentPart = ExtentPart {
        logical: 8192,
        extent: 4096,
        disk: 12288,
        decoded: 16384,
        offset: 512,
        length: 1024,
        written: true,
        compressed: false,
        foreign: false,
    };

    #[test]
    fn an_item_is_read_as_the_kernel_lays_it_out() {
        let with = |at: usize, byte: u8| {
            let mut data = item();
            data[at] = byte;
            read(&data).and_then(FileExtent::data)
        };
        assert_eq!(with(20, REGULAR), Some(PART));
        assert_eq!(with(20, 2), Some(ExtentPart { written: false, ..PART }));
        assert_eq!(with(16, 3), Some(ExtentPart { compressed: true, ..PART }));
        for at in 17..20 {
            assert_eq!(with(at, 1), Some(ExtentPart { foreign: true, ..PART }));
        }
        let mut inline = item();
        inline[20] = INLINE;
        assert_eq!(read(&inline), Some(FileExtent::Inline(32)));
        assert_eq!(read(&inline[..21]), Some(FileExtent::Inline(0)));
    }

    #[test]
    fn what_is_no_extent_is_none() {
        let whole = item();
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), None, "{length} bytes");
        }
        let mut hole = item();
        hole[21..29].fill(0);
        assert_eq!(read(&hole), None);
        assert_eq!(FileExtent::read(&Item { key: Key::new(257, 1, 0), data: &whole }), None);
    }
}
