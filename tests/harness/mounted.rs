//! Mounts that end with the test.

use super::{finish, skip};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many FUSE filesystems the tests have mounted.
static FUSE: Mutex<usize> = Mutex::new(0);
static UNMOUNTED: Condvar = Condvar::new();

fn fuse() -> MutexGuard<'static, usize> {
    FUSE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets inodes leave memory that nothing has open, on all filesystems. On FUSE they get other numbers then, as if they
/// had been replaced, so this waits until no other test has mounted one.
pub(crate) fn drop_caches() {
    let _none = UNMOUNTED.wait_while(fuse(), |mounted| *mounted > 0).unwrap_or_else(PoisonError::into_inner);
    fs::write("/proc/sys/vm/drop_caches", "3").expect("inodes can leave memory");
}

/// A mount point, unmounted when the test ends, even if the test fails.
pub(crate) struct Mounted {
    at: PathBuf,
    is_fuse: bool,
}

impl Mounted {
    /// A directory or file, mounted a second time.
    #[track_caller]
    pub(crate) fn bind(from: &Path, at: &Path) -> Mounted {
        Mounted::with(Command::new("mount").arg("--bind").arg(from), at)
    }

    /// An empty tmpfs.
    #[track_caller]
    pub(crate) fn tmpfs(at: &Path) -> Mounted {
        Mounted::with(Command::new("mount").args(["-t", "tmpfs", "none"]), at)
    }

    /// An overlay over an empty directory next to the mount point. Creates the directories for its changes.
    #[track_caller]
    pub(crate) fn overlay(at: &Path, upper: &Path, work: &Path) -> Mounted {
        let lower = at.with_extension("lower");
        [&lower, upper, work].into_iter().for_each(|dir| fs::create_dir(dir).expect("a directory can be made"));
        let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        Mounted::with(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]), at)
    }

    /// An empty exFAT, which is case-insensitive, from an image next to the mount point. `None`, and recorded as
    /// skipped, without FUSE.
    #[track_caller]
    pub(crate) fn exfat(test: &str, at: &Path) -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() {
            skip(test, "no FUSE");
            return None;
        }
        let image = at.with_extension("img");
        File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image can be made");
        finish(Command::new("mkfs.exfat").arg(&image)).expect(0);
        let mut mount = Command::new("mount");
        // Its server process stays in the background: it must not hold the test's pipes.
        mount.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        fs::create_dir_all(at).expect("a mount point can be made");
        let mounted = mount.args(["-t", "exfat-fuse", "-o", "loop"]).arg(&image).arg(at).status();
        assert!(mounted.is_ok_and(|status| status.success()), "exFAT can be mounted");
        Some(Mounted::fuse(at.to_path_buf()))
    }

    /// `dir` through bindfs, which lacks `RENAME_NOREPLACE`. `None`, and recorded as skipped, without FUSE.
    #[track_caller]
    pub(crate) fn bindfs(test: &str, dir: &Path, at: &Path) -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() {
            skip(test, "no FUSE");
            return None;
        }
        let mut mount = Command::new("bindfs");
        // Its server process stays in the background: it must not hold the test's pipes.
        mount.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Without caches: an inode has a different number under each name, and one name would show stale times of the
        // other.
        let mounted = mount.args(["-o", "attr_timeout=0,entry_timeout=0"]).arg(dir).arg(at).status();
        assert!(mounted.is_ok_and(|status| status.success()), "bindfs can be mounted");
        Some(Mounted::fuse(at.to_path_buf()))
    }

    /// A FUSE filesystem that is mounted already.
    pub(crate) fn fuse(at: PathBuf) -> Mounted {
        *fuse() += 1;
        Mounted { at, is_fuse: true }
    }

    /// Runs a command that mounts something, with the mount point as its last argument. Creates the mount point if it
    /// does not exist.
    #[track_caller]
    fn with(mount: &mut Command, at: &Path) -> Mounted {
        if !at.exists() {
            fs::create_dir_all(at).expect("a mount point can be made");
        }
        finish(mount.arg(at)).expect(0);
        Mounted { at: at.to_path_buf(), is_fuse: false }
    }

    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
        if self.is_fuse {
            *fuse() -= 1;
            UNMOUNTED.notify_all();
        }
    }
}
