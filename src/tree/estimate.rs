//! Estimates the amount of data below some paths, to show the progress of a first run: there is no earlier run to
//! predict it.
//!
//! The usage of a whole filesystem is known at once. Other directories are counted by names and sizes, on one thread,
//! while the work itself runs. The caller can stop the count at any time. The figures decide nothing.

use crate::fs::mounts;
use crate::fs::openat;
use crate::monitor::Amount;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// How many entries are counted between two checks of `is_over`.
const STEP: u64 = 256;

/// The paths and limits of an estimate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// Directories and files.
    pub paths: &'a [PathBuf],
    /// Do not enter other filesystems.
    pub one_file_system: bool,
    /// A directory that is not counted: the repository.
    pub skip: Option<&'a Path>,
    /// Count paths that are not whole filesystems. Not useful if the work itself takes hardly longer than counting.
    pub counts: bool,
}

/// Estimates a scope. Returns `None` if `is_over` returned true, or if no estimate is possible.
pub(crate) fn estimate(scope: &Scope<'_>, is_over: &dyn Fn() -> bool) -> Option<Amount> {
    let skip = scope.skip.and_then(|path| path.canonicalize().ok());
    let mut sum = Amount::default();
    for path in scope.paths {
        let path = path.canonicalize().ok()?;
        let amount = match of_filesystem(&path, scope.one_file_system, skip.as_deref()) {
            Some(amount) => amount,
            None if !scope.counts => return None,
            None => count(&path, scope.one_file_system, skip.as_deref(), is_over)?,
        };
        sum = Amount { files: sum.files + amount.files, bytes: sum.bytes + amount.bytes };
    }
    (sum.files > 0).then_some(sum)
}

/// The usage of a filesystem, if the path is its top, and nothing below is skipped or a mount that would be entered.
fn of_filesystem(path: &Path, one_file_system: bool, skip: Option<&Path>) -> Option<Amount> {
    let mounts = mounts::all().ok()?;
    let is_below = |point: &Path| point != path && point.starts_with(path);
    let is_top = mounts.iter().any(|mount| mount.point == path && mount.root == Path::new("/"));
    let is_alone = one_file_system || !mounts.iter().any(|mount| is_below(&mount.point));
    if !is_top || !is_alone || skip.is_some_and(is_below) {
        return None;
    }
    let used = rustix::fs::statvfs(path).ok()?;
    // Btrfs and some others do not count inodes.
    let files = used.f_files.checked_sub(used.f_ffree).filter(|files| *files > 0)?;
    Some(Amount { files, bytes: used.f_blocks.saturating_sub(used.f_bfree).saturating_mul(used.f_frsize) })
}

/// Counts without changing any access time.
fn count(path: &Path, one_file_system: bool, skip: Option<&Path>, is_over: &dyn Fn() -> bool) -> Option<Amount> {
    let top = rustix::fs::lstat(path).ok()?;
    if FileType::from_raw_mode(top.st_mode) != FileType::Directory {
        return Some(Amount { files: 1, bytes: top.st_size as u64 });
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut sum = Amount { files: 1, bytes: 0 };
    let mut waiting = vec![path.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        let opened =
            openat::without_access(|access| rustix::fs::openat(CWD, &directory, flags | access, Mode::empty()));
        // Unreadable directories are not estimated.
        let Ok(mut entries) = opened.and_then(Dir::new) else { continue };
        while let Some(Ok(entry)) = entries.read() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            sum.files += 1;
            if sum.files.is_multiple_of(STEP) && is_over() {
                return None;
            }
            let status = || rustix::fs::statat(entries.fd()?, name, AtFlags::SYMLINK_NOFOLLOW);
            match entry.file_type() {
                FileType::RegularFile => sum.bytes += status().map_or(0, |status| status.st_size as u64),
                FileType::Directory => {
                    let below = directory.join(OsStr::from_bytes(name.to_bytes()));
                    let is_elsewhere = || one_file_system && !status().is_ok_and(|status| status.st_dev == top.st_dev);
                    if skip != Some(below.as_path()) && !is_elsewhere() {
                        waiting.push(below);
                    }
                }
                _ => {}
            }
        }
    }
    (!is_over()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_is_counted_without_what_is_to_be_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let (source, repo) = (dir.path().join("source"), dir.path().join("source/repo"));
        fs::create_dir_all(&repo).unwrap();
        fs::write(source.join("a"), [0; 1000]).unwrap();
        fs::write(repo.join("b"), [0; 5000]).unwrap();
        std::os::unix::fs::symlink("/", source.join("link")).unwrap();
        let paths = [source];
        let of = |skip| estimate(&Scope { paths: &paths, one_file_system: false, skip, counts: true }, &|| false);
        assert_eq!(of(None), Some(Amount { files: 5, bytes: 6000 }));
        assert_eq!(of(Some(&repo)), Some(Amount { files: 4, bytes: 1000 }));
        assert_eq!(
            estimate(&Scope { paths: &paths, one_file_system: false, skip: None, counts: true }, &|| true),
            None
        );
        assert_eq!(
            estimate(
                &Scope { paths: &["/nonexistent".into()], one_file_system: false, skip: None, counts: true },
                &|| false
            ),
            None
        );
    }
}
