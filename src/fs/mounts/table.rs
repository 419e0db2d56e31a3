//! The mounts of `/proc/self/mountinfo`: which mounts show a filesystem, and with which options.
//!
//! Source: proc_pid_mountinfo(5).

use rustix::fs::{AtFlags, StatxFlags};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// A mount in this process's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The number of the mount, as statx(2) returns it for a file.
    pub id: u64,
    /// The number of the mount that contains the mount point.
    pub parent: u64,
    /// The device of the filesystem, `major:minor`: equal for all its mounts.
    pub device: String,
    /// The mounted directory of the filesystem, from the root of the filesystem.
    pub root: PathBuf,
    /// The mount point.
    pub point: PathBuf,
    /// The type of the filesystem.
    pub kind: String,
    /// The source: a device, `server:/path`, or a word.
    pub source: String,
    /// Whether the filesystem is read-only, not only this mount.
    pub is_read_only: bool,
    /// The options of this mount and of the filesystem.
    pub options: Vec<String>,
}

impl Mount {
    /// Whether an option is set, by its name without `=` and value.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.value(option).is_some()
    }

    /// The value of an option; empty if it has none.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        self.options.iter().find_map(|word| match word.strip_prefix(option)? {
            "" => Some(""),
            rest => rest.strip_prefix('='),
        })
    }

    /// Converts a path of this process, seen through this mount, to a path in the filesystem from its root.
    pub(crate) fn path_from_top(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.point).ok()?;
        Some(if below.as_os_str().is_empty() { self.root.clone() } else { self.root.join(below) })
    }

    /// Converts a path from the root of the filesystem to a path of this process. `None` if this mount does not show
    /// it.
    ///
    /// Another mount may hide it, so the caller must check that it is the same file.
    pub(crate) fn place(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.root).ok()?;
        Some(if below.as_os_str().is_empty() { self.point.clone() } else { self.point.join(below) })
    }
}

/// All mounts, in the order of their creation.
///
/// # Errors
/// If `/proc` is not mounted.
pub(crate) fn all() -> io::Result<Vec<Mount>> {
    Ok(fs::read("/proc/self/mountinfo")?.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// The mounts that show the filesystem of an open file, starting with the one it was opened through.
///
/// # Errors
/// If `/proc` is not mounted, or the kernel is older than Linux 5.8.
pub(crate) fn of(fd: impl AsFd) -> io::Result<Vec<Mount>> {
    let statx = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let unknown = || io::Error::other("the kernel does not report its mount");
    if statx.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return Err(unknown());
    }
    let mut mounts = all()?;
    let through = mounts.iter().position(|mount| mount.id == statx.stx_mnt_id).ok_or_else(unknown)?;
    let through = mounts.remove(through);
    mounts.retain(|mount| mount.device == through.device);
    mounts.insert(0, through);
    Ok(mounts)
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
pub(super) fn parse(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse().ok();
    let (id, parent) = (number(words.next()?)?, number(words.next()?)?);
    let device = String::from_utf8_lossy(words.next()?).into_owned();
    let (root, point) = (unescape(words.next()?), unescape(words.next()?));
    let split = |options: &[u8]| String::from_utf8_lossy(options).split(',').map(String::from).collect::<Vec<_>>();
    let mut options = split(words.next()?);
    let mut behind = words.skip_while(|word| *word != b"-").skip(1);
    let kind = String::from_utf8_lossy(behind.next()?).into_owned();
    let source = unescape(behind.next()?).to_string_lossy().into_owned();
    let of_filesystem = behind.next().map(split).unwrap_or_default();
    let is_read_only = of_filesystem.iter().any(|option| option == "ro");
    for option in of_filesystem {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount { id, parent, device, root, point, kind, source, is_read_only, options })
}

/// Decodes spaces, tabs, line feeds and backslashes, which are encoded as `\040` and the like.
pub(super) fn unescape(word: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| after.get(..3)).flatten();
        let code = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                out.push(code);
                rest = &after[3..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let line = concat!(
            r"36 35 0:34 /@home /mnt/with\040blank rw,noatime shared:1 master:2 - ",
            "btrfs /dev/sda rw,compress=zstd:3,subvolid=256",
        );
        let mount = parse(line.as_bytes()).unwrap();
        assert_eq!((mount.id, mount.parent, &*mount.device, &*mount.kind), (36, 35, "0:34", "btrfs"));
        assert_eq!(mount.point, Path::new("/mnt/with blank"));
        assert_eq!(mount.value("compress"), Some("zstd:3"));
        assert_eq!(mount.value("comp"), None);
        assert!(mount.has("noatime") && !mount.has("ro"));
        assert_eq!((&*mount.source, mount.is_read_only), ("/dev/sda", false));
        let bound = parse(b"37 35 7:0 / /mnt ro,relatime - squashfs /dev/loop0 ro,errors=continue").unwrap();
        assert!(bound.is_read_only);
        assert!(!parse(b"37 35 7:0 / /mnt ro - ext4 /dev/loop0 rw").unwrap().is_read_only);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_path_from_the_top_is_placed_below_a_mount_that_shows_it() {
        let mount = parse(b"1 0 0:34 /@home /home rw - btrfs /dev/sda rw").unwrap();
        assert_eq!(mount.place(Path::new("/@home/ann")), Some("/home/ann".into()));
        assert_eq!(mount.place(Path::new("/@home")), Some("/home".into()));
        assert_eq!(mount.place(Path::new("/@homes/ann")), None);
    }
}
