//! A lasting identity of filesystems: it survives unmounting, another device number and reboots. `st_dev` identifies a
//! filesystem only while it is mounted: the next image on the same loop device gets the same number.
//!
//! Two read-only images that were built the same way can agree in everything that files show: inode numbers, sizes,
//! times. For these the image itself is identified, by its inode, size and times, and its place in the file.

use crate::fs::filesystem::Kind;
use crate::fs::mounts::{self, Mount};
use crate::fs::status::Status;
use crate::fs::timestamp::Clock;
use crate::sys::{btrfs, uuid, xfs};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Result;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Identifies a filesystem. Equal values mean the same filesystem; if it is read-only, also the same state.
pub(crate) type Identity = [u8; 16];

/// Kinds of read-only images: squashfs, ISO 9660, EROFS, cramfs, romfs (`linux/magic.h`).
const IMAGES: [u64; 5] = [0x7371_7368, 0x9660, 0xe0f5_e1e2, 0x28cd_3d45, 0x7275];

/// The identity of the filesystem of an open file or directory. `None`: nothing distinguishes this filesystem from
/// another one with equal inode numbers and times.
pub(crate) fn of(fd: impl AsFd) -> Option<Identity> {
    let fd = fd.as_fd();
    let statfs = rustix::fs::fstatfs(fd).ok()?;
    let kind = Kind::from_statfs(&statfs);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(statfs.f_type as u64).to_le_bytes());
    let mount = mounts::of(fd).ok().and_then(|mounts| mounts.into_iter().next());
    let backing = mount.as_ref().and_then(backing_file);
    let uuid = uuid_of(fd);
    let is_image = IMAGES.contains(&(statfs.f_type as u64));
    match (&backing, &mount) {
        (Some((Ok(image), offset)), Some(mount)) => {
            // A writable filesystem is identified by the file that contains it, whatever its content is now.
            let (size, mtime, ctime) = match is_image || mount.is_read_only {
                true => (image.size, image.mtime, image.ctime),
                false => Default::default(),
            };
            for number in [image.ino, size] {
                hasher.update(&number.to_le_bytes());
            }
            for time in [image.btime.unwrap_or_default(), mtime, ctime] {
                hasher.update(&time.seconds.to_le_bytes()).update(&time.nanos.to_le_bytes());
            }
            if *offset > 0 {
                hasher.update(&offset.to_le_bytes());
            }
        }
        (Some((Err(_), _)), Some(mount)) if mount.is_read_only => return None,
        _ if is_image => return None,
        // It may show an image, and does not report which.
        (_, Some(mount)) if kind == Kind::Fuse && mount.is_read_only && !names_a_place(&mount.source) => return None,
        _ => {}
    }
    match (uuid, &mount) {
        (Some(uuid), _) => {
            hasher.update(&uuid);
        }
        (None, Some(mount)) => {
            hasher.update(mount.kind.as_bytes()).update(&[0]).update(mount.source.as_bytes());
            for layer in ["lowerdir", "upperdir"] {
                hasher.update(&[0]).update(mount.value(layer).unwrap_or_default().as_bytes());
            }
            if Clock::of_kind(kind) == Clock::Local {
                hasher.update(&fsid(fd));
            }
        }
        (None, None) => {
            hasher.update(&fsid(fd));
        }
    }
    hasher.finalize().as_bytes().first_chunk().copied()
}

fn uuid_of(fd: BorrowedFd<'_>) -> Option<[u8; 16]> {
    let is_set = |uuid: &[u8; 16]| *uuid != [0; 16];
    btrfs::filesystem_uuid(fd)
        .or_else(|_| uuid::of_filesystem(fd))
        .or_else(|_| xfs::geometry(fd).map(|geometry| geometry.uuid))
        .ok()
        .filter(is_set)
}

/// `f_fsid` of statfs(2): derived from a UUID, or from the device number.
fn fsid(fd: BorrowedFd<'_>) -> [u8; 8] {
    rustix::fs::fstatvfs(fd).map_or(0, |statvfs| statvfs.f_fsid).to_le_bytes()
}

/// The status of the file that contains a mounted image, and the offset of the image in it. `None`: it is on a device.
fn backing_file(mount: &Mount) -> Option<(Result<Status>, u64)> {
    let source = Path::new(&mount.source);
    let found = Status::at(CWD, source.as_os_str().as_bytes()).ok().filter(|_| source.is_absolute());
    let device = match found.map(|status| (status.file_type(), status)) {
        // EROFS and FUSE programs mount files without a device.
        Some((FileType::RegularFile, status)) => return Some((Ok(status), 0)),
        Some((FileType::BlockDevice, status)) => format!("{}:{}", status.rdev.0, status.rdev.1),
        _ => mount.device.clone(),
    };
    let (image, offset) = loop_file(&device)?;
    Some((follow(&image), offset))
}

/// Whether a mount's source is a path, or `server:path`.
fn names_a_place(source: &str) -> bool {
    source.starts_with('/') || source.contains(':')
}

/// The path of the file behind a loop device, or behind one of its partitions, and the offset in the file.
fn loop_file(device: &str) -> Option<(PathBuf, u64)> {
    let sysfs = Path::new("/sys/dev/block").join(device);
    let (dir, name) = ["loop", "../loop"].iter().find_map(|dir| {
        let dir = sysfs.join(dir);
        fs::read(dir.join("backing_file")).ok().map(|name| (dir, name))
    })?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    let number = |path: PathBuf| fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    // Only a partition has a start, in sectors of 512 bytes.
    let start: u64 = number(sysfs.join("start"));
    let offset = number(dir.join("offset")).saturating_add(start.saturating_mul(512));
    Some((PathBuf::from(std::ffi::OsStr::from_bytes(name)), offset))
}

fn follow(path: &Path) -> Result<Status> {
    Status::of(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_filesystem_has_one_identity_and_another_one_another() {
        let open = |path| fs::File::open(path).unwrap();
        let here = of(open(env!("CARGO_MANIFEST_DIR")));
        assert!(here.is_some());
        assert_eq!(here, of(open(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))));
        assert_ne!(here, of(open("/proc")));
        assert_ne!(of(open("/sys")), of(open("/proc")));
    }

    #[test]
    fn a_source_names_a_place_by_its_path_or_its_server() {
        assert!(names_a_place("/srv/data") && names_a_place("ann@server:/srv") && names_a_place("server:"));
        assert!(!names_a_place("squashfuse") && !names_a_place(""));
    }
}
