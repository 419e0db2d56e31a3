//! A filesystem for one test, mounted next to the shared ones: for tests that count its free space, fill it, mount
//! it with options, or read its device.

use super::{Kind, finish, skip};
use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// A fresh filesystem in an image, unmounted and removed when the test ends, even if the test fails.
pub(crate) struct Own {
    kind: Kind,
    image: PathBuf,
    path: PathBuf,
    options: String,
    mounted: bool,
}

impl Own {
    /// Makes a filesystem of `kind` and this size with further arguments for mkfs, and mounts it with these options (""
    /// for none). `None`, and recorded as skipped, if nothing can be mounted.
    pub(crate) fn new(kind: Kind, test: &str, mebibytes: u64, mkfs: &[&str], options: &str) -> Option<Own> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Some(shared) = env::var_os(kind.variable()) else {
            skip(test, &format!("no {kind:?} filesystem (run `cargo xtask test`)"));
            return None;
        };
        let beside = Path::new(&shared).parent().expect("a mount point is in the run's directory");
        let images = env::var_os("PLEACH_TEST_IMAGES").expect("`cargo xtask test` names a directory for images");
        let name = format!("own-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let (image, path) = (Path::new(&images).join(format!("{name}.img")), beside.join(name));
        File::create(&image).and_then(|file| file.set_len(mebibytes << 20)).expect("an image can be made");
        run(Command::new(format!("mkfs.{}", kind.name())).arg("-q").args(mkfs).arg(&image));
        fs::create_dir(&path).expect("a mount point can be made");
        let mut own = Own { kind, image, path, options: options.into(), mounted: false };
        own.mount();
        Some(own)
    }

    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The image, which the kernel reads and writes while it is mounted.
    pub(crate) fn image(&self) -> &Path {
        &self.image
    }

    /// A path on the filesystem, where nothing may exist yet.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// The used bytes according to `df`, after a remount: then nothing is delayed, preallocated or still being freed.
    pub(crate) fn used(&mut self) -> u64 {
        self.remount();
        let space = rustix::fs::statvfs(&self.path).expect("a mounted filesystem reports its space");
        (space.f_blocks - space.f_bfree) * space.f_frsize
    }

    /// The number of bytes that the device has read. Compare two values: it does not begin with 0.
    pub(crate) fn bytes_read(&self) -> u64 {
        sectors(&device_of(&self.path), READ) * 512
    }

    /// Remounts the filesystem: page cache and inodes are cold, and delayed work is done.
    pub(crate) fn remount(&mut self) {
        self.unmount();
        self.mount();
    }

    /// Like [`Own::remount`], with other options.
    pub(crate) fn remount_with(&mut self, options: &str) {
        self.options = options.into();
        self.remount();
    }

    /// Edits the image while it is not mounted, or replaces it.
    pub(crate) fn edit_image(&mut self, edit: impl FnOnce(&Path)) {
        self.unmount();
        edit(&self.image);
        self.mount();
    }

    /// Asserts that the filesystem's own checker finds no errors.
    #[track_caller]
    pub(crate) fn assert_clean(mut self) {
        self.unmount();
        let (checker, flags) = match self.kind {
            Kind::Btrfs => ("btrfs", ["check", "--readonly"]),
            Kind::Ext4 => ("e2fsck", ["-f", "-n"]),
            Kind::Xfs | Kind::XfsOther | Kind::XfsSmall => ("xfs_repair", ["-n", "-f"]),
        };
        run(Command::new(checker).args(flags).arg(&self.image));
    }

    fn mount(&mut self) {
        let options = if self.options.is_empty() { "loop".into() } else { format!("loop,{}", self.options) };
        run(Command::new("mount").args(["-t", self.kind.name(), "-o", &options]).arg(&self.image).arg(&self.path));
        self.mounted = true;
    }

    fn unmount(&mut self) {
        if self.mounted {
            // A concurrent test may just be starting a program. That process has all descriptors open until it executes
            // the program.
            let busy = (0..300).take_while(|_| {
                let done = Command::new("umount").arg(&self.path).stderr(Stdio::null()).status();
                let is_busy = !done.is_ok_and(|status| status.success());
                if is_busy {
                    thread::sleep(Duration::from_millis(100));
                }
                is_busy
            });
            assert!(busy.count() < 300, "{} can be unmounted", self.path.display());
            self.mounted = false;
            wait_for_release(&self.image);
        }
    }
}

/// The loop device of a mount point, such as `loop0`.
#[track_caller]
pub(super) fn device_of(path: &Path) -> String {
    let source = finish(Command::new("findmnt").args(["-n", "-o", "SOURCE", "--mountpoint"]).arg(path)).expect(0);
    source.stdout.trim().strip_prefix("/dev/").expect("a device is mounted").to_string()
}

/// The places of sectors read and sectors written among the counters of a device.
const READ: usize = 2;
pub(super) const WRITTEN: usize = 6;

/// The number of 512-byte sectors that a device has read or written since it exists.
#[track_caller]
pub(super) fn sectors(device: &str, which: usize) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{device}/stat")).expect("a device has counters");
    stat.split_whitespace().nth(which).and_then(|sectors| sectors.parse().ok()).expect("a device counts sectors")
}

/// Waits until no device uses an image any more. If a concurrent test runs a process in a separate mount namespace,
/// that process has a copy of each mount. Until it ends, the filesystem stays mounted, and mounting it again does not
/// make a new mount from the image.
#[track_caller]
pub(crate) fn wait_for_release(image: &Path) {
    let image = image.as_os_str().as_bytes();
    let has_image = |device: io::Result<fs::DirEntry>| {
        let file = device.and_then(|device| fs::read(device.path().join("loop/backing_file")));
        file.is_ok_and(|file| file.strip_suffix(b"\n") == Some(image))
    };
    let is_attached = || fs::read_dir("/sys/block").is_ok_and(|devices| devices.into_iter().any(has_image));
    let tries = (0..600).take_while(|_| is_attached()).map(|_| thread::sleep(Duration::from_millis(100))).count();
    assert!(tries < 600, "the device of an unmounted image is released");
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.mounted {
            // Lazily, because a failed test may still have a file on it open.
            let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
        }
        let _ = fs::remove_file(&self.image);
        let _ = fs::remove_dir(&self.path);
    }
}

impl Kind {
    /// The kernel's name of the filesystem.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Xfs | Kind::XfsOther | Kind::XfsSmall => "xfs",
            Kind::Btrfs => "btrfs",
            Kind::Ext4 => "ext4",
        }
    }
}

/// Runs a command to its end, successfully. The tools of Btrfs look at all loop devices to see whether an image is
/// mounted, and fail if a concurrent test releases one meanwhile. Then the command is run again.
#[track_caller]
pub(super) fn run(command: &mut Command) {
    for _ in 0..100 {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot run: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            return;
        }
        assert!(said.contains("check mount status"), "{command:?}: {said}");
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{command:?} always meets a device that is released");
}
