//! A disk that refuses writes for a while: the kernel reports each lost write once, to whoever syncs first.

use super::{Filesystem, Kind, finish, tools};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A filesystem in an image, in a tmpfs whose size can be set: writes beyond that fail as on a broken disk.
pub(crate) struct FailingDisk {
    room: PathBuf,
    path: PathBuf,
    kind: Kind,
}

impl FailingDisk {
    /// A disk of the scratch directory's kind that works.
    #[track_caller]
    pub(crate) fn new(scratch: &Filesystem) -> FailingDisk {
        let disk = FailingDisk { room: scratch.dir("room"), path: scratch.dir("disk"), kind: scratch.kind };
        finish(Command::new("mount").args(["-t", "tmpfs", "-o", "size=1g", "tmpfs"]).arg(&disk.room)).expect(0);
        File::create(disk.image()).and_then(|image| image.set_len(512 << 20)).expect("an image can be made");
        finish(Command::new(format!("mkfs.{}", disk.kind.name())).arg("-q").arg(disk.image())).expect(0);
        disk.mount();
        disk
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path on it.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    fn image(&self) -> PathBuf {
        self.room.join("image")
    }

    fn mount(&self) {
        let options = match self.kind {
            // Without a thread that goes on making the filesystem.
            Kind::Ext4 => "loop,noinit_itable",
            _ => "loop",
        };
        finish(Command::new("mount").args(["-o", options]).arg(self.image()).arg(&self.path)).expect(0);
    }

    /// From now on the disk takes only so many bytes in places that were never written to.
    #[track_caller]
    pub(crate) fn breaks_after(&self, bytes: u64) {
        tools::free_bytes(&self.path);
        let space = rustix::fs::statvfs(&self.room).expect("a tmpfs shows its space");
        self.set_size((space.f_blocks - space.f_bfree) * space.f_frsize + bytes);
    }

    /// The disk takes everything again. What it refused is lost, and the kernel has forgotten it.
    #[track_caller]
    pub(crate) fn is_mended(&self) {
        // Whoever asks first learns of the failure, and nobody after that.
        let _ = Command::new("sync").arg("-f").arg(&self.path).output();
        self.set_size(1 << 30);
        let _ = Command::new("sync").arg("-f").arg(&self.path).output();
        fs::write("/proc/sys/vm/drop_caches", "3").expect("inodes can leave memory");
    }

    fn set_size(&self, bytes: u64) {
        let options = format!("remount,size={bytes}");
        finish(Command::new("mount").args(["-o", &options]).arg(&self.room)).expect(0);
    }

    /// Unmounts it and mounts it again.
    #[track_caller]
    pub(crate) fn remount(&self) {
        finish(Command::new("umount").arg(&self.path)).expect(0);
        self.mount();
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        for path in [&self.path, &self.room] {
            let _ = Command::new("umount").arg("--lazy").arg(path).status();
        }
    }
}
