//! A disk that refuses writes for a while. The kernel reports each lost write once, to the first process that syncs.

use super::mounted::drop_caches;
use super::{Filesystem, Kind, disk_space, finish, own};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A filesystem in an image, in a tmpfs with an adjustable size: writes beyond that size fail as on a broken disk.
pub(crate) struct FailingDisk {
    room: PathBuf,
    path: PathBuf,
    kind: Kind,
}

impl FailingDisk {
    /// A working disk with a filesystem of the scratch directory's kind.
    #[track_caller]
    pub(crate) fn new(scratch: &Filesystem) -> FailingDisk {
        let disk = FailingDisk { room: scratch.dir("room"), path: scratch.dir("disk"), kind: scratch.kind };
        finish(Command::new("mount").args(["-t", "tmpfs", "-o", "size=1g", "tmpfs"]).arg(&disk.room)).expect(0);
        File::create(disk.image()).and_then(|image| image.set_len(512 << 20)).expect("an image can be made");
        own::run(Command::new(format!("mkfs.{}", disk.kind.name())).arg("-q").arg(disk.image()));
        disk.mount();
        disk
    }

    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path on the disk.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    fn image(&self) -> PathBuf {
        self.room.join("image")
    }

    fn mount(&self) {
        let options = match self.kind {
            // Without a kernel thread that continues to initialize the filesystem.
            Kind::Ext4 => "loop,noinit_itable",
            _ => "loop",
        };
        finish(Command::new("mount").args(["-o", options]).arg(self.image()).arg(&self.path)).expect(0);
    }

    /// From now on the disk accepts only this many bytes in places that were never written to.
    #[track_caller]
    pub(crate) fn breaks_after(&self, bytes: u64) {
        disk_space::free_bytes(&self.path);
        let space = rustix::fs::statvfs(&self.room).expect("a tmpfs shows its space");
        self.set_size((space.f_blocks - space.f_bfree) * space.f_frsize + bytes);
    }

    /// The disk accepts all writes again. The refused writes are lost, and the kernel no longer reports them.
    #[track_caller]
    pub(crate) fn is_mended(&self) {
        self.is_mended_and_the_cache_stays();
        drop_caches();
    }

    /// The same, and reads still return the lost data, from memory.
    #[track_caller]
    pub(crate) fn is_mended_and_the_cache_stays(&self) {
        // The first sync gets the failure, and no later one does.
        let _ = Command::new("sync").arg("-f").arg(&self.path).output();
        self.set_size(1 << 30);
        let _ = Command::new("sync").arg("-f").arg(&self.path).output();
    }

    fn set_size(&self, bytes: u64) {
        let options = format!("remount,size={bytes}");
        finish(Command::new("mount").args(["-o", &options]).arg(&self.room)).expect(0);
    }

    /// Remounts the disk.
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
