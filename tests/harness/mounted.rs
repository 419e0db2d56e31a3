//! Mounts that end with the test.

use super::{finish, skip};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A mount point, unmounted when the test ends, even if the test fails.
pub(crate) struct Mounted(PathBuf);

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
        Some(Mounted(at.to_path_buf()))
    }

    /// A mount that something other than mount(8) has made.
    pub(crate) fn by_another(at: PathBuf) -> Mounted {
        Mounted(at)
    }

    /// Runs a command that mounts something, with the mount point as its last argument. Creates the mount point if it
    /// does not exist.
    #[track_caller]
    fn with(mount: &mut Command, at: &Path) -> Mounted {
        if !at.exists() {
            fs::create_dir_all(at).expect("a mount point can be made");
        }
        finish(mount.arg(at)).expect(0);
        Mounted(at.to_path_buf())
    }

    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
