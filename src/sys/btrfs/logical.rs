//! Finds the files at a logical address: `BTRFS_IOC_LOGICAL_INO_V2`, `BTRFS_IOC_INO_PATHS`, `BTRFS_IOC_INO_LOOKUP`,
//! `BTRFS_IOC_GET_SUBVOL_INFO`, and opening inodes by number. All except `BTRFS_IOC_GET_SUBVOL_INFO` and
//! [`subvolume_of`] need root.
//!
//! Sources: `include/uapi/linux/btrfs.h`, `fs/btrfs/backref.c`, `fs/btrfs/export.c`, btrfs-ioctl(2).

use crate::sys::handle;
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Getter, Opcode, Updater, opcode};
use std::os::fd::{AsFd, OwnedFd};

const BTRFS_IOC_INO_LOOKUP: Opcode = opcode::read_write::<InoLookup>(0x94, 18);
const BTRFS_IOC_INO_PATHS: Opcode = opcode::read_write::<InoPaths>(0x94, 35);
const BTRFS_IOC_LOGICAL_INO_V2: Opcode = opcode::read_write::<LogicalIno>(0x94, 59);
const BTRFS_IOC_GET_SUBVOL_INFO: Opcode = opcode::read::<RawSubvolume>(0x94, 60);
const _: () = assert!(BTRFS_IOC_INO_LOOKUP == 0xd000_9412);
const _: () = assert!(BTRFS_IOC_INO_PATHS == 0xc038_9423);
const _: () = assert!(BTRFS_IOC_LOGICAL_INO_V2 == 0xc038_943b);
const _: () = assert!(BTRFS_IOC_GET_SUBVOL_INFO == 0x81f8_943c);

/// `BTRFS_FIRST_FREE_OBJECTID`: the inode number of each subvolume's root directory.
pub(crate) const ROOT_DIRECTORY: u64 = 256;
/// `BTRFS_EMPTY_SUBVOL_DIR_OBJECTID`: the inode number of the directory that replaces a subvolume in a snapshot.
pub(crate) const EMPTY_SUBVOLUME: u64 = 2;
/// `BTRFS_FS_TREE_OBJECTID`: the subvolume that contains all others.
pub(crate) const TOP_LEVEL: u64 = 5;

/// `BTRFS_LOGICAL_INO_ARGS_IGNORE_OFFSET`.
const IGNORE_OFFSET: u64 = 1;
/// `FILEID_BTRFS_WITHOUT_PARENT`.
const FILEID_BTRFS: i32 = 0x4d;
/// `BTRFS_ROOT_SUBVOL_RDONLY`: the flag in the tree. The calls that set it use a different flag.
const ROOT_SUBVOL_RDONLY: u64 = 1;

/// The size of the first buffer: about 2,700 references.
const FIRST_BUFFER: usize = 64 << 10;
/// The largest buffer that the kernel accepts in V2 (`SZ_16M` in `fs/btrfs/ioctl.c`): about 699,000 references.
const LARGEST_BUFFER: usize = 16 << 20;
/// The most bytes that the kernel returns for the names of one inode (`SZ_4K` in `fs/btrfs/ioctl.c`).
const PATHS_BUFFER: usize = 4096;

/// `struct btrfs_ioctl_logical_ino_args`.
#[repr(C)]
struct LogicalIno {
    logical: u64,
    size: u64,
    reserved: [u64; 3],
    flags: u64,
    inodes: u64,
}

/// `struct btrfs_ioctl_ino_path_args`.
#[repr(C)]
struct InoPaths {
    inum: u64,
    size: u64,
    reserved: [u64; 4],
    fspath: u64,
}

/// `struct btrfs_ioctl_ino_lookup_args`.
#[repr(C)]
struct InoLookup {
    treeid: u64,
    objectid: u64,
    name: [u8; 4080],
}

/// `struct btrfs_ioctl_get_subvol_info_args`.
#[repr(C)]
struct RawSubvolume {
    treeid: u64,
    name: [u8; 256],
    parent_id: u64,
    dirid: u64,
    generation: u64,
    flags: u64,
    uuids: [[u8; 16]; 3],
    transids: [u64; 4],
    times: [[u64; 2]; 4],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LogicalIno>() == 56);
const _: () = assert!(size_of::<InoPaths>() == 56);
const _: () = assert!(size_of::<InoLookup>() == 4096);
const _: () = assert!(size_of::<RawSubvolume>() == 504);

/// A file that uses a data extent, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reference {
    /// The subvolume.
    pub root: u64,
    /// The inode in it.
    pub inode: u64,
    /// The offset of the item in the file, whatever part of the extent it uses.
    pub offset: u64,
}

/// The result of [`logical_to_inodes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    /// The references, in the kernel's order.
    pub found: Vec<Reference>,
    /// The number of further references that did not fit into the largest buffer.
    pub missed: u64,
}

impl References {
    /// The number of all references, including missed ones.
    pub(crate) fn total(&self) -> u64 {
        self.found.len() as u64 + self.missed
    }
}

/// `BTRFS_IOC_LOGICAL_INO_V2`: the references to any part of the data extent at `logical`
/// (`BTRFS_LOGICAL_INO_ARGS_IGNORE_OFFSET`, Linux 4.15). The buffer grows as far as the kernel allows.
///
/// # Errors
/// `NOENT` if there is no data extent; `PERM` without `CAP_SYS_ADMIN`.
#[doc(alias = "BTRFS_IOC_LOGICAL_INO_V2")]
pub(crate) fn logical_to_inodes(fd: impl AsFd, logical: u64) -> Result<References> {
    let mut size = FIRST_BUFFER;
    loop {
        let mut container = Container::new(size);
        let mut request = LogicalIno {
            logical,
            size: size as u64,
            reserved: [0; 3],
            flags: IGNORE_OFFSET,
            inodes: container.address(),
        };
        // SAFETY: the number belongs to this structure (checked above), and `inodes` points to `size` bytes.
        let call = unsafe { Updater::<BTRFS_IOC_LOGICAL_INO_V2, LogicalIno>::new(&mut request) };
        // SAFETY: the buffer outlives the call.
        unsafe { ioctl::ioctl(&fd, call) }?;
        if container.missing() > 0 && size < LARGEST_BUFFER {
            // References may be added between the calls, so the buffer gets more room than was missing.
            size = (size + container.missing() + 4096).next_multiple_of(4096).min(LARGEST_BUFFER);
            continue;
        }
        // The kernel counts numbers, and each reference has three.
        let found = container.values().chunks_exact(3);
        let found = found.map(|three| Reference { inode: three[0], offset: three[1], root: three[2] }).collect();
        return Ok(References { found, missed: container.elements_missed() / 3 });
    }
}

/// The result of [`paths`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paths {
    /// Paths from the subvolume's root, without a leading slash.
    pub found: Vec<Vec<u8>>,
    /// The number of further names, which did not fit into the kernel's 4 KiB.
    pub missed: u64,
}

/// `BTRFS_IOC_INO_PATHS`: all names of an inode in the subvolume that contains `fd`. A deleted file has none.
///
/// # Errors
/// `PERM` without `CAP_DAC_READ_SEARCH`.
#[doc(alias = "BTRFS_IOC_INO_PATHS")]
pub(crate) fn paths(fd: impl AsFd, inode: u64) -> Result<Paths> {
    let mut container = Container::new(PATHS_BUFFER);
    let mut request =
        InoPaths { inum: inode, size: PATHS_BUFFER as u64, reserved: [0; 4], fspath: container.address() };
    // SAFETY: the number belongs to this structure (checked above), and `fspath` points to `size` bytes.
    let call = unsafe { Updater::<BTRFS_IOC_INO_PATHS, InoPaths>::new(&mut request) };
    // SAFETY: the buffer outlives the call.
    match unsafe { ioctl::ioctl(fd, call) } {
        Ok(()) => {}
        // The inode has no name.
        Err(Errno::NOENT) => return Ok(Paths::default()),
        Err(error) => return Err(error),
    }
    // Each value is the offset of a path from the start of the values, in bytes.
    let found = container.values().iter().map(|offset| container.string(*offset)).collect();
    Ok(Paths { found, missed: container.elements_missed() })
}

/// `BTRFS_IOC_INO_LOOKUP`: the path of a directory in subvolume `root`, without a leading slash and with a trailing
/// one. Empty for the root of the subvolume. `fd` is any file of the filesystem.
///
/// # Errors
/// `NOENT` if it does not exist; `PERM` without `CAP_SYS_ADMIN`.
#[doc(alias = "BTRFS_IOC_INO_LOOKUP")]
pub(crate) fn directory_path(fd: impl AsFd, root: u64, inode: u64) -> Result<Vec<u8>> {
    Ok(until_nul(&lookup(fd, root, inode)?.name).to_vec())
}

/// `BTRFS_IOC_INO_LOOKUP`: the subvolume that contains an open file. Needs no privilege.
pub(crate) fn subvolume_of(fd: impl AsFd) -> Result<u64> {
    Ok(lookup(fd, 0, ROOT_DIRECTORY)?.treeid)
}

fn lookup(fd: impl AsFd, root: u64, inode: u64) -> Result<InoLookup> {
    let mut request = InoLookup { treeid: root, objectid: inode, name: [0; 4080] };
    // SAFETY: the number belongs to this structure (checked above).
    let call = unsafe { Updater::<BTRFS_IOC_INO_LOOKUP, InoLookup>::new(&mut request) };
    // SAFETY: the kernel reads and fills the structure that the request carries.
    unsafe { ioctl::ioctl(fd, call) }?;
    Ok(request)
}

/// A subvolume, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subvolume {
    /// Its number.
    pub id: u64,
    /// Its name in the directory that contains it. Empty for the top level.
    pub name: Vec<u8>,
    /// The subvolume that contains it. 0 for the top level and for a subvolume that is being deleted.
    pub parent: u64,
    /// The directory that contains it, in that subvolume.
    pub directory: u64,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Its own UUID. No other subvolume ever has the same, here or on another machine.
    pub uuid: [u8; 16],
    /// The UUID of the subvolume that it is a snapshot of. Zero if it is not a snapshot.
    pub parent_uuid: [u8; 16],
    /// The number of the transaction that created it.
    pub created: u64,
    /// The number of the last transaction that changed an inode in it. Reading does not count, nor does a snapshot, a
    /// balance, or a change to read-only and back.
    pub changed: u64,
}

/// `BTRFS_IOC_GET_SUBVOL_INFO`: the subvolume that contains an open directory. Needs no privilege.
///
/// # Errors
/// `NOENT` for a subvolume that is being deleted; `NOTTY` before Linux 4.18 and on other filesystems.
#[doc(alias = "BTRFS_IOC_GET_SUBVOL_INFO")]
pub(crate) fn subvolume(fd: impl AsFd) -> Result<Subvolume> {
    // SAFETY: the number belongs to this structure (checked above), and any bytes are a valid value of it.
    let request = unsafe { Getter::<BTRFS_IOC_GET_SUBVOL_INFO, RawSubvolume>::new() };
    // SAFETY: the kernel fills the structure that the request carries.
    let raw = unsafe { ioctl::ioctl(fd, request) }?;
    Ok(Subvolume {
        id: raw.treeid,
        name: until_nul(&raw.name).to_vec(),
        parent: raw.parent_id,
        directory: raw.dirid,
        read_only: raw.flags & ROOT_SUBVOL_RDONLY != 0,
        uuid: raw.uuids[0],
        parent_uuid: raw.uuids[1],
        created: raw.transids[1],
        changed: raw.transids[0],
    })
}

/// Opens an inode of a subvolume by its number, without a path. `mount` is any open file of the filesystem.
///
/// # Errors
/// `STALE` if it does not exist, or its subvolume is being deleted; `PERM` without `CAP_DAC_READ_SEARCH`.
pub(crate) fn open_inode(mount: impl AsFd, root: u64, inode: u64, flags: OFlags) -> Result<OwnedFd> {
    // `struct btrfs_fid` without its parent. Generation 0 matches any generation.
    let mut data = [0; 20];
    data[..8].copy_from_slice(&inode.to_ne_bytes());
    data[8..16].copy_from_slice(&root.to_ne_bytes());
    handle::open(mount, FILEID_BTRFS, &data, flags)
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// `struct btrfs_data_container`: two words of counters, then the values.
struct Container(Vec<u64>);

impl Container {
    fn new(size: usize) -> Self {
        Container(vec![0; size / 8])
    }

    fn address(&mut self) -> u64 {
        self.0.as_mut_ptr().expose_provenance() as u64
    }

    /// The 32-bit counters: bytes_left, bytes_missing, elem_cnt, elem_missed.
    fn counter(&self, index: usize) -> u32 {
        let word = self.0[index / 2].to_ne_bytes();
        let half = index % 2 * 4;
        u32::from_ne_bytes([word[half], word[half + 1], word[half + 2], word[half + 3]])
    }

    fn missing(&self) -> usize {
        self.counter(1) as usize
    }

    fn elements_missed(&self) -> u64 {
        self.counter(3).into()
    }

    fn values(&self) -> &[u64] {
        let values = &self.0[2..];
        &values[..(self.counter(2) as usize).min(values.len())]
    }

    /// The string at this offset from the start of the values, up to its NUL or the end of the buffer.
    fn string(&self, offset: u64) -> Vec<u8> {
        let bytes = self.0[2..].iter().flat_map(|word| word.to_ne_bytes());
        bytes.skip(usize::try_from(offset).unwrap_or(usize::MAX)).take_while(|byte| *byte != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_read_within_its_bounds() {
        let counters = |left: u32, missing: u32| {
            u64::from_ne_bytes([left.to_ne_bytes(), missing.to_ne_bytes()].concat().try_into().unwrap())
        };
        let container =
            Container(vec![counters(8, 24), counters(9, 6), 16, u64::MAX, u64::from_ne_bytes(*b"a/b\0\0\0\0\0")]);
        assert_eq!((container.missing(), container.elements_missed()), (24, 6));
        assert_eq!(container.values().len(), 3, "never more than there is, whatever the counter says");
        assert_eq!(container.string(16), b"a/b");
        assert_eq!(container.string(u64::MAX), b"");
    }
}
