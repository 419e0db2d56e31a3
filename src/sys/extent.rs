//! The extents that FIEMAP reports: plain types with the flags of `linux/fiemap.h`. No I/O, and no comparisons between
//! files.
//!
//! Offsets and lengths are in bytes, and ranges are half-open. `extents` interprets the addresses.

use std::fmt;

/// The flags of an extent, as in `linux/fiemap.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtentFlags(pub u32);

impl ExtentFlags {
    /// The last extent of the file.
    pub const LAST: Self = Self(0x1);
    /// The data has no address yet, or the address is unknown.
    pub const UNKNOWN: Self = Self(0x2);
    /// Delayed allocation: not yet on the disk.
    pub const DELALLOC: Self = Self(0x4);
    /// Compressed or otherwise encoded: the address is that of the encoded extent.
    pub const ENCODED: Self = Self(0x8);
    /// Encrypted.
    pub const DATA_ENCRYPTED: Self = Self(0x80);
    /// Offsets may not be block-aligned.
    pub const NOT_ALIGNED: Self = Self(0x100);
    /// Mixed with metadata: the file is so small that it is stored in its inode or tree leaf.
    pub const DATA_INLINE: Self = Self(0x200);
    /// The tails of several files, packed together.
    pub const DATA_TAIL: Self = Self(0x400);
    /// Allocated but never written: reads as zeros.
    pub const UNWRITTEN: Self = Self(0x800);
    /// Merged from several records for this listing.
    pub const MERGED: Self = Self(0x1000);
    /// Other files, or other parts of this file, use the same blocks.
    pub const SHARED: Self = Self(0x2000);

    const NAMES: [(Self, &'static str); 11] = [
        (Self::LAST, "last"),
        (Self::UNKNOWN, "unknown"),
        (Self::DELALLOC, "delalloc"),
        (Self::ENCODED, "encoded"),
        (Self::DATA_ENCRYPTED, "data_encrypted"),
        (Self::NOT_ALIGNED, "not_aligned"),
        (Self::DATA_INLINE, "data_inline"),
        (Self::DATA_TAIL, "data_tail"),
        (Self::UNWRITTEN, "unwritten"),
        (Self::MERGED, "merged"),
        (Self::SHARED, "shared"),
    ];

    /// Whether all of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The kernel's names of the set flags, in lower case, without their prefix.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }
}

impl std::ops::BitOr for ExtentFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for ExtentFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// One extent of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extent {
    /// The offset in the file.
    pub logical: u64,
    /// The offset on the device (Btrfs: in its logical address space). `None` if the data has no address of its own.
    pub physical: Option<u64>,
    /// The length in the file.
    pub length: u64,
    /// The kernel's flags.
    pub flags: ExtentFlags,
}

/// An extent exactly as the kernel reports it. `physical` is an address only if the flags allow one. Otherwise it is an
/// arbitrary number from the filesystem, which tools print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reported {
    /// The offset in the file.
    pub logical: u64,
    /// The number that the kernel reports as an address.
    pub physical: u64,
    /// The length in the file.
    pub length: u64,
    /// The kernel's flags.
    pub flags: ExtentFlags,
}

impl Reported {
    /// The extent that it describes.
    pub(crate) fn extent(&self) -> Extent {
        Extent::from_kernel(self.logical, self.physical, self.length, self.flags.0)
    }

    /// The offset in the file after its last byte.
    pub(crate) fn logical_end(&self) -> u64 {
        self.logical.saturating_add(self.length)
    }
}

impl Extent {
    /// Builds an extent from a report. Inline, delayed and unknown extents carry a number that is not an address. An
    /// extent that would reach beyond the largest offset or address is cut: nobody else has to expect it.
    pub(crate) fn from_kernel(logical: u64, physical: u64, length: u64, flags: u32) -> Self {
        let flags = ExtentFlags(flags);
        let placeless =
            ExtentFlags::UNKNOWN | ExtentFlags::DELALLOC | ExtentFlags::DATA_INLINE | ExtentFlags::DATA_TAIL;
        let physical = (!flags.intersects(placeless)).then_some(physical);
        let length = length.min(u64::MAX - logical.max(physical.unwrap_or(0)));
        Extent { logical, physical, length, flags }
    }

    /// The offset in the file after its last byte.
    pub fn logical_end(&self) -> u64 {
        self.logical.saturating_add(self.length)
    }

    /// Whether the kernel marks it as shared, and it has an address.
    pub fn is_shared(&self) -> bool {
        self.physical.is_some() && self.flags.contains(ExtentFlags::SHARED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_extent_has_no_address_and_is_never_shared() {
        let inline = Extent::from_kernel(0, 0, 100, (ExtentFlags::DATA_INLINE | ExtentFlags::SHARED).0);
        assert_eq!(inline.physical, None);
        assert!(!inline.is_shared());
    }

    #[test]
    fn an_extent_ends_at_the_largest_offset_and_address() {
        let length = |logical, physical, flags| Extent::from_kernel(logical, physical, u64::MAX, flags).length;
        assert_eq!((length(5, 9, 0), length(9, 5, 0)), (u64::MAX - 9, u64::MAX - 9));
        assert_eq!(length(5, u64::MAX, ExtentFlags::DELALLOC.0), u64::MAX - 5);
    }

    #[test]
    fn flags_are_named_as_in_the_kernel() {
        assert_eq!((ExtentFlags::SHARED | ExtentFlags::LAST).to_string(), "last,shared");
    }
}
