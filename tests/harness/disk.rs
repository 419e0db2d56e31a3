//! Disks that can lose power: filesystems in image files on an XFS of the test's own.
//!
//! That XFS can clone an image in one call, even while the image is mounted and written to. Writers of the image wait
//! meanwhile, and the clone has everything written before. So the clone holds exactly the data that the loop device had
//! acknowledged at one moment, like a disk after a power cut. XFS and ext4 can also be shut down by an ioctl, with or
//! without writing out their log. The jobs that meet a power cut are in `tests/power_cut`.

use super::own::{self, Own, WRITTEN, device_of, sectors, wait_for_release};
use super::power::{self, Shutdown};
use super::recorder::Recorder;
use super::run::succeeds;
use super::tools::Extent;
use super::{Kind, finish};
use rustix::fs::{FallocateFlags, fallocate};
use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The XFS that holds the images of one test, and the directory where they are mounted, one at a time.
pub(crate) struct Shelf {
    own: Own,
    kind: Kind,
    number: Cell<u32>,
}

impl Shelf {
    /// A shelf for disks with filesystems of this kind. `None`, and recorded as skipped, if nothing can be mounted.
    pub(crate) fn new(kind: Kind, test: &str, mebibytes: u64) -> Option<Shelf> {
        let own = Own::new(Kind::XfsOther, test, mebibytes, &[], "")?;
        let shelf = Shelf { own, kind, number: Cell::new(0) };
        fs::create_dir(shelf.mount_point()).expect("a mount point can be made");
        Some(shelf)
    }

    /// The mount point of this shelf's disks.
    pub(crate) fn mount_point(&self) -> PathBuf {
        self.own.path().with_extension("disk")
    }

    /// The filesystem that holds the images.
    pub(crate) fn path(&self) -> &Path {
        self.own.path()
    }

    /// A disk with a new, empty filesystem.
    pub(crate) fn disk(&self, mebibytes: u64) -> Disk<'_> {
        let disk = self.blank();
        File::create(&disk.image).and_then(|file| file.set_len(mebibytes << 20)).expect("an image can be made");
        let mut mkfs = Command::new(format!("mkfs.{}", self.kind.name()));
        mkfs.arg("-q").args(match self.kind {
            // Room for many small files.
            Kind::Ext4 => ["-i", "4096"].as_slice(),
            _ => &[],
        });
        own::run(mkfs.arg(&disk.image));
        disk
    }

    /// Fills the filesystem that holds the images, except for this many bytes. Further writes to holes of the images
    /// fail.
    pub(crate) fn fill_but(&self, bytes: u64) -> Filler {
        let path = self.own.join("filler");
        let file = File::create_new(&path).expect("a file can be made");
        let (mut at, mut step) = (0, 1 << 30);
        // The available space is always a little less than reported.
        while step >= 4096 {
            let space = rustix::fs::statvfs(self.own.path()).expect("a mounted filesystem shows its space");
            let is_enough = space.f_bavail * space.f_frsize < bytes + step;
            if is_enough || fallocate(&file, FallocateFlags::empty(), at, step).is_err() {
                step /= 2;
            } else {
                at += step;
            }
        }
        Filler { path }
    }

    fn blank(&self) -> Disk<'_> {
        let number = self.number.replace(self.number.get() + 1);
        Disk { shelf: self, image: self.own.join(format!("{number}.img")), mounted: None }
    }
}

/// A file that fills a filesystem until it is dropped.
pub(crate) struct Filler {
    path: PathBuf,
}

impl Drop for Filler {
    fn drop(&mut self) {
        let freed = fs::metadata(&self.path).map_or(0, |meta| meta.len()) / 2;
        let _ = fs::remove_file(&self.path);
        // XFS frees space in the background.
        let is_free = || {
            let space = self.path.parent().and_then(|dir| rustix::fs::statvfs(dir).ok());
            space.is_none_or(|space| space.f_bavail * space.f_frsize > freed)
        };
        let _ = (0..100).take_while(|_| !is_free()).map(|_| thread::sleep(Duration::from_millis(100))).count();
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.mount_point());
    }
}

/// A disk: an image that may be mounted. It is unmounted and removed on drop.
pub(crate) struct Disk<'s> {
    shelf: &'s Shelf,
    image: PathBuf,
    mounted: Option<Mounted>,
}

/// The way in which a disk is mounted.
struct Mounted {
    /// The loop device, such as `loop0`.
    device: String,
    /// The file behind it.
    image: PathBuf,
}

impl<'s> Disk<'s> {
    /// Mounts the disk; after a power cut, this recovers the filesystem.
    pub(crate) fn mount(&mut self) {
        self.mount_image(self.image.clone());
    }

    /// Mounts the disk, and records all requests to its device. Unmount the disk before the recorder is dropped.
    pub(crate) fn mount_recorded(&mut self) -> Recorder {
        let recorder = Recorder::begin(&self.image);
        self.mount_image(recorder.image());
        recorder
    }

    fn mount_image(&mut self, image: PathBuf) {
        let path = self.shelf.mount_point();
        let options = match self.shelf.kind {
            // Without a kernel thread that continues to initialize the filesystem.
            Kind::Ext4 => "loop,noinit_itable",
            _ => "loop",
        };
        let mut mount = Command::new("mount");
        finish(mount.args(["-t", self.shelf.kind.name(), "-o", options]).arg(&image).arg(&path)).expect(0);
        self.mounted = Some(Mounted { device: device_of(&path), image });
    }

    /// Unmounts the disk.
    pub(crate) fn unmount(&mut self) {
        let Some(Mounted { image, .. }) = self.mounted.take() else { return };
        // A concurrent test may just be starting a program. That process has all descriptors open until it executes the
        // program.
        let is_busy = || !succeeds(Command::new("umount").arg(self.shelf.mount_point()));
        let tries = (0..300).take_while(|_| is_busy()).map(|_| thread::sleep(Duration::from_millis(100))).count();
        assert!(tries < 300, "{} can be unmounted", self.shelf.mount_point().display());
        wait_for_release(&image);
    }

    /// Another disk with the present content of this one, as of a single moment.
    pub(crate) fn clone_now(&self) -> Disk<'s> {
        let clone = self.shelf.blank();
        let from = File::open(&self.image).expect("an image can be opened");
        let to = File::create_new(&clone.image).expect("an image can be made");
        rustix::fs::ioctl_ficlone(&to, &from).expect("an image can be cloned");
        clone
    }

    /// Shuts the mounted filesystem down. Btrfs does not support this.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        power::shut_down(&self.shelf.mount_point(), how);
    }

    /// The number of 512-byte sectors written to the device since it was mounted.
    pub(crate) fn sectors_written(&self) -> u64 {
        let mounted = self.mounted.as_ref().expect("the disk is mounted");
        sectors(&mounted.device, WRITTEN)
    }

    /// The number of blocks in use on the mounted filesystem, including delayed allocations.
    pub(crate) fn blocks_used(&self) -> u64 {
        // After a shutdown the call fails.
        rustix::fs::statvfs(self.shelf.mount_point()).map_or(0, |space| space.f_blocks - space.f_bfree)
    }

    /// Allocates the whole unmounted image, except for the blocks of a file that was on it at these places: they become
    /// holes.
    pub(crate) fn allocate_but(&self, places: &[Extent]) {
        let image = File::options().write(true).open(&self.image).expect("an image can be opened");
        let length = image.metadata().expect("an image has a size").len();
        fallocate(&image, FallocateFlags::empty(), 0, length).expect("space can be allocated");
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for place in places {
            fallocate(&image, punch, place.physical * 512, place.length * 512).expect("a hole can be punched");
        }
    }

    /// The image file.
    pub(crate) fn image(&self) -> &Path {
        &self.image
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        if self.mounted.is_some() {
            // Lazily, because a failed test may still have a file on it open.
            succeeds(Command::new("umount").arg("--lazy").arg(self.shelf.mount_point()));
        }
        let _ = fs::remove_file(&self.image);
    }
}
