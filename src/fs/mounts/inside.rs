//! The mounts inside a directory. Renaming the directory would move them; deleting it would leave them behind.
//!
//! A mount point belongs to a directory entry, whatever its path: a mount made through another bind mount of the same
//! filesystem moves with that entry too, although this path does not show it. So mount points are compared by their
//! place in their filesystem, from the table of mounts. No directory is read or opened.

use super::table::{self, Mount};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, StatxFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The longest path that a link in procfs returns.
const LONGEST: usize = 4096;

/// The mounts of this process's namespace, read again after changes.
#[derive(Debug)]
pub(crate) struct Table {
    /// Open only to notice changes.
    file: File,
    mounts: Vec<Mount>,
}

/// A mount inside a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// The mount point, from the directory. Empty: the directory itself, visible by another path. `None`: anywhere in
    /// the directory.
    pub(super) way: Option<PathBuf>,
    /// The mount point as a path of this process, for messages.
    pub(crate) point: PathBuf,
}

impl Table {
    /// Reads the table.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub(crate) fn read() -> io::Result<Table> {
        // Opened before the table is read, so later changes are noticed.
        let file = File::open("/proc/self/mountinfo")?;
        Ok(Table { file, mounts: table::all()? })
    }

    /// Reads the table again if mounts have changed. Returns whether they have.
    pub(crate) fn refresh(&mut self) -> io::Result<bool> {
        let mut asked = [PollFd::new(&self.file, PollFlags::PRI)];
        let has_changed = match poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) => asked[0].revents().intersects(PollFlags::PRI | PollFlags::ERR),
            Err(_) => true,
        };
        if has_changed {
            self.mounts = table::all()?;
        }
        Ok(has_changed)
    }

    /// The mounts inside an open directory.
    ///
    /// # Errors
    /// If the path of the directory is unknown, and so the mounts inside.
    pub(crate) fn inside(&self, dir: BorrowedFd<'_>) -> io::Result<Vec<Inside>> {
        let through = mount_id(dir)?;
        match std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())) {
            Ok(path) if path.is_absolute() => Ok(inside(&self.mounts, through, &path)),
            Ok(path) => Err(io::Error::other(format!("the path {} leads nowhere", path.display()))),
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => Ok(very_deep(&self.mounts, through)),
            Err(error) => Err(error),
        }
    }
}

/// The number of the mount that a file was opened through.
///
/// # Errors
/// If neither statx(2) (Linux 5.8) nor `/proc` gives it.
pub(crate) fn mount_id(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let statx = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    if statx.stx_mask & StatxFlags::MNT_ID.bits() != 0 {
        return Ok(statx.stx_mnt_id);
    }
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("the kernel does not show which mount it is on"))
}

/// The mounts in the directory at `path`, opened through this mount.
pub(super) fn inside(mounts: &[Mount], through: u64, path: &Path) -> Vec<Inside> {
    let find = |id: u64| mounts.iter().find(|mount| mount.id == id);
    let own = find(through);
    // The table has no mounts outside this process's root directory.
    let place = own.and_then(|own| Some((own, own.path_from_top(path)?)));
    let way = |mount: &Mount| {
        let by_place = || {
            let (own, place) = place.as_ref()?;
            let parent = find(mount.parent).filter(|parent| parent.device == own.device)?;
            let way = parent.path_from_top(&mount.point)?.strip_prefix(place).ok()?.to_path_buf();
            // The directory is the root of this mount.
            (mount.id != own.id || !way.as_os_str().is_empty()).then_some(way)
        };
        let by_path = || Some(mount.point.strip_prefix(path).ok()?.to_path_buf()).filter(|way| way != Path::new(""));
        by_place().or_else(by_path)
    };
    mounts.iter().filter_map(|mount| Some(Inside { way: Some(way(mount)?), point: mount.point.clone() })).collect()
}

/// All mounts that may be in a directory with a path that is too long to be known.
pub(super) fn very_deep(mounts: &[Mount], through: u64) -> Vec<Inside> {
    let find = |id: u64| mounts.iter().find(|mount| mount.id == id);
    let own = find(through);
    let before = own.map_or(0, |own| own.point.as_os_str().len());
    let is_possible = |mount: &&Mount| {
        let place = find(mount.parent).and_then(|parent| parent.path_from_top(&mount.point));
        let length = place.map_or(0, |place| place.as_os_str().len()).max(mount.point.as_os_str().len());
        length + before >= LONGEST
    };
    let inside = |mount: &Mount| Inside { way: None, point: mount.point.clone() };
    mounts.iter().filter(is_possible).map(inside).collect()
}

impl Inside {
    /// Whether the mount point may be this entry of the directory, or below it.
    pub(crate) fn is_at(&self, name: &[u8]) -> bool {
        self.way.as_ref().is_none_or(|way| way.iter().next().is_some_and(|first| first.as_bytes() == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[&str]) -> Vec<Mount> {
        lines.iter().map(|line| table::parse(line.as_bytes()).unwrap()).collect()
    }

    fn points(mounts: &[Mount], through: u64, path: &str) -> Vec<(String, String)> {
        let show = |path: &Path| path.display().to_string();
        inside(mounts, through, Path::new(path))
            .iter()
            .map(|found| (show(found.way.as_deref().unwrap()), show(&found.point)))
            .collect()
    }

    #[test]
    fn a_mount_is_found_by_any_path_to_its_mount_point() {
        let mounts = table(&[
            "1 0 8:1 / / rw - ext4 /dev/a rw",
            "2 1 8:2 / /home rw - ext4 /dev/b rw",
            "3 1 8:2 /ann /mnt/ann rw - ext4 /dev/b rw",
            "4 3 0:5 / /mnt/ann/x/deep/t rw - tmpfs t rw",
            "5 2 8:1 /etc/file /home/bob/file rw - ext4 /dev/a rw",
        ]);
        let found = |way: &str, point: &str| vec![(way.to_string(), point.to_string())];
        assert_eq!(points(&mounts, 2, "/home/ann"), found("x/deep/t", "/mnt/ann/x/deep/t"));
        assert_eq!(points(&mounts, 3, "/mnt/ann/x"), found("deep/t", "/mnt/ann/x/deep/t"));
        assert_eq!(points(&mounts, 2, "/home/bob"), found("file", "/home/bob/file"));
        assert_eq!(points(&mounts, 2, "/home/ann/x/deep/t"), found("", "/mnt/ann/x/deep/t"));
        assert_eq!(points(&mounts, 2, "/home/annabel"), []);
        assert_eq!(points(&mounts, 4, "/mnt/ann/x/deep/t"), []);
        assert_eq!(points(&mounts, 2, "/home").len(), 2);
        assert_eq!(points(&mounts, 1, "/").len(), 4);
        // Through a mount that the table does not show, only paths can be compared.
        assert_eq!(points(&mounts, 9, "/mnt").len(), 2);
    }

    #[test]
    fn what_is_mounted_over_a_mount_or_on_itself_is_not_lost() {
        let mounts = table(&[
            "1 0 8:1 / / rw - ext4 /dev/a rw",
            "2 1 8:1 /srv /srv rw - ext4 /dev/a rw",
            "3 2 0:5 / /srv rw - tmpfs t rw",
            "4 2 0:6 / /srv/hidden rw - tmpfs t rw",
        ]);
        let ways = |through, path| points(&mounts, through, path).into_iter().map(|found| found.0).collect::<Vec<_>>();
        assert_eq!(ways(2, "/srv/hidden"), [""]);
        assert_eq!(ways(3, "/srv"), ["hidden"], "by its path");
        assert_eq!(ways(1, "/"), ["srv", "srv", "srv/hidden"]);
    }

    #[test]
    fn a_very_deep_directory_has_only_mounts_that_are_as_deep() {
        let far = format!("/a/{}", "d/".repeat(2100));
        let lines = ["1 0 8:1 / / rw - ext4 /dev/a rw", &format!("2 1 0:5 / {far}t rw - tmpfs t rw")];
        assert_eq!(very_deep(&table(&lines), 1).len(), 1);
        assert_eq!(very_deep(&table(&[lines[0], "2 1 0:5 / /a/t rw - tmpfs t rw"]), 1), []);
    }

    #[test]
    fn the_table_says_that_nothing_is_mounted_in_an_ordinary_directory() {
        use std::os::fd::AsFd as _;
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let open = File::open(dir.path()).unwrap();
        let table = Table::read().unwrap();
        assert_eq!(table.inside(open.as_fd()).unwrap(), []);
        assert!(!table.inside(File::open("/").unwrap().as_fd()).unwrap().is_empty());
        let root = mount_id(File::open("/").unwrap().as_fd()).unwrap();
        assert_ne!(root, mount_id(File::open("/proc").unwrap().as_fd()).unwrap());
    }
}
