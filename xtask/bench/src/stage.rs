//! The filesystems of a bench, one or two, each in an image, and the state of the caches.
//!
//! Only this file makes filesystems, drops caches and measures space for benches.

use anyhow::{Context, Result};
use clap::ValueEnum;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use xtask::command::{output, program};
use xtask::image::{Kind, Mounted};
use xtask::space;

/// The state of the caches when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cache {
    /// Nothing of the filesystems is cached.
    Cold,
    /// The files named by `Stage::warm` and `Stage::known` are cached.
    Warm,
}

impl Cache {
    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cache::Cold => "cold",
            Cache::Warm => "warm",
        }
    }
}

/// The kind of a filesystem, and its size in MiB.
pub(crate) type Size = (Kind, u64);

/// The filesystems of a bench.
pub(crate) struct Stage {
    dir: PathBuf,
    source: Side,
    /// `None` if everything is on one filesystem.
    destination: Option<Side>,
    /// Files and trees that are in memory even in a cold run, because no contender should wait for them.
    pub(crate) always: Vec<PathBuf>,
    /// Files and trees with their content in memory in a warm run.
    pub(crate) warm: Vec<PathBuf>,
    /// Trees with their names and inodes in memory in a warm run.
    pub(crate) known: Vec<PathBuf>,
    /// Bytes in use when [`Stage::mark`] was called.
    marked: u64,
}

struct Side {
    kind: Kind,
    name: &'static str,
    mounted: Option<Mounted>,
}

impl Side {
    fn new(dir: &Path, name: &'static str, size: Size) -> Result<Side> {
        Side::with(dir, name, size, &[])
    }

    fn with(dir: &Path, name: &'static str, (kind, mebibytes): Size, mkfs: &'static [&'static str]) -> Result<Side> {
        Ok(Side { kind, name, mounted: Some(Mounted::create_with(kind, dir, name, mebibytes, mkfs)?) })
    }

    fn path(&self) -> &Path {
        self.mounted().path()
    }

    fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().expect("it is only unmounted while it is replaced")
    }

    fn mounted_mut(&mut self) -> &mut Mounted {
        self.mounted.as_mut().expect("it is only unmounted while it is replaced")
    }

    /// Unmounts the filesystem and checks it.
    fn check(&mut self) -> Result<()> {
        self.mounted.take().map_or(Ok(()), Mounted::check).with_context(|| format!("{} is not clean", self.name))
    }
}

impl Stage {
    /// Makes the filesystems, with images in `dir`.
    pub(crate) fn new(dir: &Path, source: Size, destination: Option<Size>) -> Result<Stage> {
        let destination = destination.map(|size| Side::new(dir, "destination", size)).transpose()?;
        Ok(Stage { destination, ..Stage::with(dir, source, &[])? })
    }

    /// Makes one filesystem, with these arguments for mkfs and an image in `dir`.
    pub(crate) fn with(dir: &Path, source: Size, mkfs: &'static [&'static str]) -> Result<Stage> {
        let source = Side::with(dir, "source", source, mkfs)?;
        let (always, warm, known) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Stage { dir: dir.into(), source, destination: None, always, warm, known, marked: 0 })
    }

    /// The directory of the images, which is on none of these filesystems.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The mount point of the filesystem that is read.
    pub(crate) fn source(&self) -> &Path {
        self.source.path()
    }

    /// The mount point of the filesystem that is written to, which may be the same.
    pub(crate) fn written(&self) -> &Path {
        self.destination.as_ref().unwrap_or(&self.source).path()
    }

    /// The kind of the filesystem that is written to.
    pub(crate) fn kind(&self) -> Kind {
        self.destination.as_ref().unwrap_or(&self.source).kind
    }

    /// The tree that a bench works on.
    pub(crate) fn tree(&self) -> PathBuf {
        self.source().join("tree")
    }

    /// The path that a run writes to; nothing exists there before.
    pub(crate) fn fresh(&self) -> PathBuf {
        self.written().join("fresh")
    }

    /// Sets the state of the caches.
    pub(crate) fn set_cache(&self, cache: Cache) -> Result<()> {
        space::sync(self.source())?;
        space::sync(self.written())?;
        if cache == Cache::Cold {
            fs::write("/proc/sys/vm/drop_caches", "3").context("cannot drop the caches")?;
        }
        self.always.iter().try_for_each(|path| read(path))?;
        if cache == Cache::Warm {
            self.warm.iter().try_for_each(|path| read(path))?;
            self.known.iter().try_for_each(|dir| visit(dir, &mut |_| Ok(())))?;
        }
        Ok(())
    }

    /// Removes [`Stage::fresh`], including Btrfs subvolumes, and frees its space: by making a new filesystem, unless
    /// the source is on it.
    pub(crate) fn clear(&mut self) -> Result<()> {
        match &mut self.destination {
            Some(destination) => destination.mounted_mut().remake(),
            None => {
                remove_all(self.source.path(), &[self.fresh()])?;
                self.source.mounted_mut().remount()
            }
        }
    }

    /// Remounts the source: this drops its caches and completes delayed work.
    pub(crate) fn remount(&mut self) -> Result<()> {
        self.source.mounted_mut().remount()
    }

    /// Remounts the filesystem that is written to. Returns only when removed files are gone: XFS frees their extents in
    /// the background, also after a sync.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.destination.as_mut().unwrap_or(&mut self.source).mounted_mut().remount()
    }

    /// Keeps a copy of the source's image for [`Stage::restore`].
    pub(crate) fn keep(&mut self) -> Result<()> {
        self.source.check()?;
        fs::rename(self.dir.join("source.img"), self.dir.join("kept.img"))?;
        self.restore()
    }

    /// Checks the source, and replaces it by a copy of the kept image.
    pub(crate) fn restore(&mut self) -> Result<()> {
        self.source.check()?;
        let image = self.dir.join("source.img");
        let mut copy = program("cp");
        output(copy.args(["--sparse=always", "--reflink=auto"]).arg(self.dir.join("kept.img")).arg(&image))?;
        self.source.mounted = Some(Mounted::open(self.source.kind, &image, &self.dir.join("source"))?);
        Ok(())
    }

    /// Records the space in use on the filesystem that runs write to.
    pub(crate) fn mark(&mut self) -> Result<()> {
        self.marked = space::used(self.written())?;
        Ok(())
    }

    /// The bytes added since [`Stage::mark`].
    pub(crate) fn added(&self) -> Result<f64> {
        Ok(space::used(self.written())? as f64 - self.marked as f64)
    }

    /// The bytes read from the devices since they were created: the third field of `stat`, in sectors.
    pub(crate) fn device_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for side in [Some(&self.source), self.destination.as_ref()].into_iter().flatten() {
            let device = side.mounted().device()?;
            let path = format!("/sys/class/block/{}/stat", device.trim_start_matches("/dev/"));
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            let sectors = text.split_whitespace().nth(2).and_then(|field| field.parse::<u64>().ok());
            bytes += sectors.with_context(|| format!("{path} is not as expected"))? * 512;
        }
        Ok(bytes)
    }

    /// Checks the filesystems, and frees their space.
    pub(crate) fn strike(mut self) -> Result<()> {
        self.source.check()?;
        self.destination.as_mut().map_or(Ok(()), Side::check)?;
        for name in ["source.img", "destination.img", "kept.img"] {
            let image = self.dir.join(name);
            if image.exists() {
                fs::remove_file(image)?;
            }
        }
        Ok(())
    }
}

/// Removes trees on the filesystem at `root`, and syncs it. On Btrfs, subvolumes are deleted first, because `rm` may
/// not remove them. Returns only when they are gone, so that no cleanup falls into the next run.
pub(crate) fn remove_all(root: &Path, trees: &[PathBuf]) -> Result<()> {
    const BTRFS_MAGIC: i64 = 0x9123_683E;
    let is_btrfs = rustix::fs::statfs(root)?.f_type as i64 == BTRFS_MAGIC;
    for tree in trees.iter().filter(|tree| is_btrfs && tree.exists()) {
        let found = output(program("find").arg(tree).args(["-xdev", "-maxdepth", "3", "-type", "d", "-inum", "256"]))?;
        let subvolumes: Vec<_> = found.lines().rev().collect();
        if !subvolumes.is_empty() {
            output(program("btrfs").args(["subvolume", "delete", "--commit-after"]).args(subvolumes))?;
            output(program("btrfs").args(["subvolume", "sync"]).arg(root))?;
        }
    }
    output(program("rm").arg("-rf").args(trees))?;
    space::sync(root)
}

/// Reads a file, or all files below a directory.
fn read(path: &Path) -> Result<()> {
    if path.is_dir() { visit(path, &mut read_whole) } else { read_whole(path) }
}

fn visit(dir: &Path, file: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            visit(&entry.path(), file)?;
        } else if meta.is_file() {
            file(&entry.path())?;
        }
    }
    Ok(())
}

/// Reads all data of a file. Its holes are skipped, because they would only fill the memory with zeros.
fn read_whole(path: &Path) -> Result<()> {
    use rustix::fs::{SeekFrom, seek};
    let mut buffer = [0; 65_536];
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut end = 0;
    while let Ok(begin) = seek(&file, SeekFrom::Data(end)) {
        end = seek(&file, SeekFrom::Hole(begin))?;
        let mut at = begin;
        while at < end {
            let length = buffer.len().min((end - at) as usize);
            match file.read_at(&mut buffer[..length], at)? {
                0 => return Ok(()),
                read => at += read as u64,
            }
        }
    }
    Ok(())
}
