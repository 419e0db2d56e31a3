//! Filesystems in image files: made, mounted on a loop device, unmounted on drop, checked.

use crate::command::{output, program};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The filesystems that pleach is tested on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// ext4.
    Ext4,
}

impl Kind {
    /// The kernel's name of the filesystem.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Xfs => "xfs",
            Kind::Btrfs => "btrfs",
            Kind::Ext4 => "ext4",
        }
    }

    /// Its name in prose.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Xfs => "XFS",
            Kind::Btrfs => "Btrfs",
            Kind::Ext4 => "ext4",
        }
    }

    fn make(self, image: &Path, more: &[&str]) -> Result<()> {
        let mut mkfs = program(format!("mkfs.{}", self.name()));
        mkfs.args(match self {
            Kind::Xfs => ["-q", "-f"].as_slice(),
            Kind::Btrfs => &["-q", "-f"],
            // By default, a small image has too few inodes for directories of many small files.
            Kind::Ext4 => &["-q", "-F", "-i", "4096"],
        });
        output(mkfs.args(more).arg(image)).map(drop)
    }

    /// The mkfs option that keeps the image's blocks allocated.
    fn without_discard(self) -> &'static [&'static str] {
        match self {
            Kind::Xfs | Kind::Btrfs => &["-K"],
            Kind::Ext4 => &["-E", "nodiscard"],
        }
    }

    fn checker(self) -> &'static [&'static str] {
        match self {
            Kind::Xfs => &["xfs_repair", "-n", "-f"],
            Kind::Btrfs => &["btrfs", "check", "--readonly"],
            Kind::Ext4 => &["e2fsck", "-f", "-n"],
        }
    }
}

/// The memory that must be available before images are kept in it, in MiB: all of them together are smaller.
const MEMORY: u64 = 16 << 10;

/// A directory for images, in a run's directory: in memory if there is plenty of it, because then no test waits for the
/// disk. The filesystems in the images are the same.
///
/// Nothing may be mounted below it. Otherwise, if the run's directory is removed while the namespace of a killed run is
/// ending, the kernel keeps both for ever: the mounts use the images, and the directory of the images has the mounts.
pub fn directory(run: &Path) -> Result<PathBuf> {
    let images = run.join("images");
    fs::create_dir_all(&images).with_context(|| format!("cannot make {}", images.display()))?;
    let available = available_memory().unwrap_or(0);
    let place = if available >= MEMORY {
        let size = format!("size={}m", available / 4 * 3);
        output(program("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&images))?;
        "memory"
    } else {
        "files"
    };
    println!("the filesystems of the tests are in {place}: {} GiB of memory are available", available >> 10);
    Ok(images)
}

/// The memory that the kernel could give to programs, in MiB.
fn available_memory() -> Option<u64> {
    let lines = fs::read_to_string("/proc/meminfo").ok()?;
    let line = lines.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? >> 10)
}

/// A mounted image. Dropping it unmounts it.
pub struct Mounted {
    kind: Kind,
    mkfs: &'static [&'static str],
    image: PathBuf,
    path: PathBuf,
    mounted: bool,
}

impl Mounted {
    /// Makes `dir/name.img`, a sparse file with a fresh filesystem of `kind`, and mounts it at `dir/name`.
    pub fn create(kind: Kind, dir: &Path, name: &str, mebibytes: u64) -> Result<Mounted> {
        Mounted::create_with(kind, dir, name, mebibytes, &[])
    }

    /// Like [`Mounted::create`], with further arguments for mkfs.
    pub fn create_with(
        kind: Kind,
        dir: &Path,
        name: &str,
        mebibytes: u64,
        mkfs: &'static [&'static str],
    ) -> Result<Mounted> {
        Mounted::make(kind, dir, name, mebibytes, &dir.join(name), mkfs)
    }

    /// Like [`Mounted::create`], mounted at `path`.
    pub fn create_at(kind: Kind, dir: &Path, name: &str, mebibytes: u64, path: &Path) -> Result<Mounted> {
        Mounted::make(kind, dir, name, mebibytes, path, &[])
    }

    fn make(
        kind: Kind,
        dir: &Path,
        name: &str,
        mebibytes: u64,
        path: &Path,
        mkfs: &'static [&'static str],
    ) -> Result<Mounted> {
        let image = dir.join(format!("{name}.img"));
        let file = File::create(&image).with_context(|| format!("cannot make {}", image.display()))?;
        file.set_len(mebibytes << 20)?;
        kind.make(&image, mkfs)?;
        fs::create_dir_all(path)?;
        let mut mounted = Mounted { kind, mkfs, image, path: path.into(), mounted: false };
        mounted.mount()?;
        Ok(mounted)
    }

    /// Mounts an existing image at `path`.
    pub fn open(kind: Kind, image: &Path, path: &Path) -> Result<Mounted> {
        fs::create_dir_all(path)?;
        let mut mounted = Mounted { kind, mkfs: &[], image: image.into(), path: path.into(), mounted: false };
        mounted.mount()?;
        Ok(mounted)
    }

    /// The mounted block device, such as `/dev/loop0`.
    pub fn device(&self) -> Result<String> {
        Ok(output(program("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.path))?.trim().to_string())
    }

    /// Remounts the filesystem: its caches are empty, and delayed work is done.
    pub fn remount(&mut self) -> Result<()> {
        self.unmount()?;
        self.mount()
    }

    /// Replaces the filesystem by an empty one. The image keeps its blocks, so filling it again does not wait for the
    /// filesystem below to allocate new ones.
    pub fn remake(&mut self) -> Result<()> {
        self.unmount()?;
        self.kind.make(&self.image, &[self.kind.without_discard(), self.mkfs].concat())?;
        self.mount()
    }

    fn mount(&mut self) -> Result<()> {
        let options = match self.kind {
            // Otherwise the kernel continues to initialize the filesystem during the measurement.
            Kind::Ext4 => "loop,noinit_itable",
            Kind::Xfs | Kind::Btrfs => "loop",
        };
        output(program("mount").args(["-t", self.kind.name(), "-o", options]).arg(&self.image).arg(&self.path))?;
        self.mounted = true;
        // Bypass the page cache of the filesystem that holds the image, if possible: nothing is cached twice, and a
        // cold cache is really cold. `mount` has no option for it.
        if let Ok(device) = self.device() {
            let _ = output(program("losetup").args(["--direct-io=on", &device]));
        }
        Ok(())
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts the filesystem and runs its own checker, which changes nothing.
    pub fn check(mut self) -> Result<()> {
        self.unmount()?;
        let [checker, flags @ ..] = self.kind.checker() else { unreachable!("every kind has a checker") };
        output(program(checker).args(flags).arg(&self.image)).map(drop)
    }

    fn unmount(&mut self) -> Result<()> {
        if self.mounted {
            output(program("umount").arg(&self.path))?;
            self.mounted = false;
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("xtask: {error:#}");
        }
    }
}
