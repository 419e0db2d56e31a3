//! The walk: the inodes below the paths, and the disk usage of those that are not looked up by their numbers.
//!
//! If Btrfs's trees are read (`trees`), or XFS's inodes and its reverse map (`numbers`), the walk only lists names and
//! examines no file: directories contain the inode numbers. Elsewhere the walk gets the status and the extents of each
//! file.

use super::device::{Device, Devices, Method, Volume};
use super::mapped::{self, Mapped};
use super::part::Part;
use super::references::Referrers;
use crate::error::{Error, Result};
use crate::fs::mounts;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::tree::walk::{Directory, Name, Visitor, absolute};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The visitor of the walk.
pub(super) struct Census<'a> {
    devices: &'a Devices,
    monitor: &'a dyn Monitor,
    pub(super) errors: AtomicU64,
    /// Names that something is mounted over, by their directories: their inode numbers are those of the covered files.
    covered: HashMap<PathBuf, HashSet<OsString>>,
}

/// The state kept for a directory.
pub(super) struct Place {
    /// `None` on the way to a source: a filesystem without a wanted file is not examined.
    device: Option<Arc<Device>>,
    /// Its entries count for the set.
    is_new: bool,
}

/// The results for one directory of one device.
pub(super) struct Found {
    device: Arc<Device>,
    is_new: bool,
    content: Content,
}

enum Content {
    /// Inodes that will be looked up by their numbers.
    Listed(Vec<u64>),
    /// Inodes that were examined.
    Mapped(Vec<Mapped>),
}

impl<'a> Census<'a> {
    pub(super) fn new(devices: &'a Devices, monitor: &'a dyn Monitor, errors: u64) -> Self {
        let mut covered: HashMap<PathBuf, HashSet<OsString>> = HashMap::new();
        // Without /proc, nothing is known to be covered.
        for point in mounts::all().unwrap_or_default().into_iter().map(|mount| mount.point) {
            if let (Some(parent), Some(name)) = (point.parent(), point.file_name()) {
                covered.entry(parent.to_path_buf()).or_default().insert(name.to_os_string());
            }
        }
        Census { devices, monitor, errors: AtomicU64::new(errors), covered }
    }

    pub(super) fn problem(&self, error: &Error) {
        self.monitor.problem(error);
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports that a file could not be mapped. If the whole filesystem cannot, it is reported only once.
    fn unmapped(&self, volume: &Volume, path: PathBuf, errno: Errno) {
        if let Some(error) = mapped::problem(volume, path, errno) {
            self.problem(&error);
        }
    }

    /// The device of a directory; `None` if it is unknown, which was reported.
    fn device<P>(&self, directory: &Directory<P>) -> Option<Arc<Device>> {
        let device = self.devices.of(directory.status.dev, &directory.fd, &absolute(&directory.path));
        device.map_err(|error| self.problem(&error)).ok()
    }

    /// Examines one entry of a directory on `device`. `None` if it is gone or inaccessible, which was reported.
    fn look(
        &self,
        directory: &Directory<Place>,
        device: &Arc<Device>,
        name: Name<'_>,
    ) -> Option<(Arc<Device>, Mapped)> {
        let path = || absolute(&directory.join(name.bytes));
        let failed = |action: &str, errno: Errno| self.problem(&Error::io(action, path(), errno));
        let status = match Status::at(&directory.fd, name.bytes) {
            Ok(status) => status,
            // A file that was removed after its directory was listed takes no space.
            Err(Errno::NOENT) => {
                directory.note_missing(name.bytes);
                return None;
            }
            Err(errno) => {
                failed("read the status of", errno);
                return None;
            }
        };
        let is_here = status.dev == directory.status.dev;
        if status.file_type() != FileType::RegularFile || (is_here && !self.is_to_map(device, &status, path)) {
            return Some((Arc::clone(device), Mapped::plain(&device.volume, &status)));
        }
        let fd = match mapped::open(&directory.fd, name.bytes, &status) {
            Ok(fd) => fd,
            Err(errno) => {
                failed("open", errno);
                return Some((Arc::clone(device), Mapped::unknown(&device.volume, &status)));
            }
        };
        // A single file can be a mount point too.
        let device = if is_here {
            Arc::clone(device)
        } else {
            match self.devices.of(status.dev, &fd, &path()) {
                Ok(device) => device,
                Err(error) => {
                    self.problem(&error);
                    return None;
                }
            }
        };
        if !is_here && !self.is_to_map(&device, &status, path) {
            let mapped = Mapped::plain(&device.volume, &status);
            return Some((device, mapped));
        }
        match mapped::map(&device.volume, fd, &status) {
            Ok(mapped) => Some((device, mapped)),
            Err(errno) => {
                self.unmapped(&device.volume, path(), errno);
                let mapped = Mapped::unknown(&device.volume, &status);
                Some((device, mapped))
            }
        }
    }

    /// Whether the file has extents that can be mapped by its descriptor. If they cannot, that is reported once.
    fn is_to_map(&self, device: &Device, status: &Status, path: impl Fn() -> PathBuf) -> bool {
        let volume = &device.volume;
        if volume.lacks_maps() {
            self.unmapped(volume, path(), Errno::OPNOTSUPP);
            return false;
        }
        let is_open = volume.method == Method::Maps && !volume.is_refused.load(Ordering::Relaxed);
        is_open && mapped::has_extents(volume, status)
    }
}

impl Visitor for Census<'_> {
    type Place = Place;
    type Output = Vec<Found>;

    fn enter(
        &self,
        directory: &Directory<()>,
        _parent: Option<&Directory<Place>>,
    ) -> Result<Option<(Place, Self::Output)>> {
        if self.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        if directory.scaffold {
            return Ok(Some((Place { device: None, is_new: false }, Vec::new())));
        }
        let Some(device) = self.device(directory) else { return Ok(None) };
        let is_new = device.is_new_directory(directory.status.ino);
        let content = match device.volume.method {
            Method::Trees | Method::Numbers => Content::Listed(vec![directory.status.ino]),
            // A directory has one name, whatever its link count is.
            Method::Maps => {
                let mapped = Mapped::plain(&device.volume, &directory.status);
                Content::Mapped(vec![Mapped { links: 1, ..mapped }])
            }
        };
        let found = Found { device: Arc::clone(&device), is_new, content };
        Ok(Some((Place { device: Some(device), is_new }, vec![found])))
    }

    fn batch(&self, directory: &Directory<Place>, names: &mut dyn Iterator<Item = Name<'_>>) -> Result<Self::Output> {
        if self.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        let Place { device, is_new } = &directory.place;
        let Some(device) = device.clone().or_else(|| self.device(directory)) else { return Ok(Vec::new()) };
        let mut found: Vec<Found> = Vec::new();
        let mut files = 0;
        let mut listed = Vec::new();
        let covered = self.covered.get(absolute(&directory.path).as_path());
        let is_covered = |name: &[u8]| covered.is_some_and(|names| names.contains(OsStr::from_bytes(name)));
        for name in names {
            files += 1;
            // On the way to a source, only that source is visited.
            let is_new =
                if directory.scaffold { device.is_new_name(directory.status.ino, name.bytes) } else { *is_new };
            if device.volume.lists() && !directory.scaffold && !is_covered(name.bytes) {
                listed.push(name.ino);
                continue;
            }
            let Some((device, mapped)) = self.look(directory, &device, name) else { continue };
            if device.volume.lists() {
                let content = Content::Listed(vec![mapped.inode]);
                found.push(Found { device, is_new, content });
                continue;
            }
            match found.last_mut() {
                Some(Found { device: last, is_new: new, content: Content::Mapped(list) })
                    if Arc::ptr_eq(last, &device) && *new == is_new =>
                {
                    list.push(mapped);
                }
                _ => found.push(Found { device, is_new, content: Content::Mapped(vec![mapped]) }),
            }
        }
        if !listed.is_empty() {
            listed.sort_unstable();
            found.push(Found { device, is_new: *is_new, content: Content::Listed(listed) });
        }
        self.monitor.advance(Amount { files, bytes: 0 });
        Ok(found)
    }

    fn leave(&self, _directory: &Directory<Place>) -> Result<()> {
        Ok(())
    }

    fn incomplete(&self, error: Error) {
        self.problem(&error);
    }

    fn unreadable(
        &self,
        _parent: Option<&Directory<Place>>,
        _path: &[u8],
        error: Error,
    ) -> Result<Option<Self::Output>> {
        self.problem(&error);
        Ok(None)
    }
}

/// A file with several names, some of them possibly outside the set.
struct Linked {
    device: Arc<Device>,
    inode: u64,
    links: u64,
    leaving: Leaving,
    shared: Vec<Range<u64>>,
}

/// The totals of the paths and of the set.
#[derive(Default)]
pub(super) struct Tally {
    /// The paths; empty if there is only one path, which is then the set.
    pub(super) paths: Vec<Part>,
    pub(super) set: Part,
    /// By volume: bytes that are freed when the set is deleted, for the files that were examined.
    leaving: Vec<Leaving>,
    linked: Vec<Linked>,
}

/// The bytes of a volume that are freed, without its shared ranges.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leaving {
    /// Bytes that only these files hold.
    pub(super) own: u64,
    /// The part of `own` that may take less on the disk.
    pub(super) encoded: u64,
    /// The number of extents in `own`, and the bytes in `own` that are in none of them.
    pub(super) extents: u64,
    pub(super) unmapped: u64,
}

impl Tally {
    /// Counts the walk's results, for path number `path` and for the set.
    pub(super) fn add(&mut self, path: Option<usize>, found: Found) {
        let Found { device, is_new, content } = found;
        match content {
            Content::Listed(inodes) => {
                for inode in inodes {
                    if let Some(part) = path.and_then(|path| self.paths.get_mut(path)) {
                        part.add(device.number, inode);
                    }
                    if is_new {
                        self.set.add(device.number, inode);
                    }
                }
            }
            Content::Mapped(list) => list.into_iter().for_each(|mapped| self.add_mapped(path, &device, is_new, mapped)),
        }
    }

    fn add_mapped(&mut self, path: Option<usize>, device: &Arc<Device>, is_new: bool, mapped: Mapped) {
        if let Some(part) = path.and_then(|path| self.paths.get_mut(path))
            && part.add(device.number, mapped.inode)
        {
            count(part, &mapped);
            refer(part, &device.volume, &mapped.shared, 1, 0);
        }
        if !is_new || !self.set.add(device.number, mapped.inode) {
            return;
        }
        count(&mut self.set, &mapped);
        let leaves = mapped.links <= 1;
        refer(&mut self.set, &device.volume, &mapped.shared, 1, u32::from(leaves));
        let Mapped { inode, links, own, encoded, own_extents: extents, unmapped, shared, .. } = mapped;
        let leaving = Leaving { own, encoded, extents, unmapped };
        if leaves {
            self.leave(&device.volume, leaving);
        } else {
            self.linked.push(Linked { device: Arc::clone(device), inode, links, leaving, shared });
        }
    }

    /// Counts inodes that are freed.
    pub(super) fn leave(&mut self, volume: &Volume, by: Leaving) {
        let sum = self.sum(volume);
        sum.own += by.own;
        sum.encoded += by.encoded;
        sum.extents += by.extents;
        sum.unmapped += by.unmapped;
    }

    /// Of the bytes that were counted as freed, `shared` are shared. `unshared` others are in this many `extents`.
    pub(super) fn share(&mut self, volume: &Volume, shared: u64, (extents, unshared): (u64, u64)) {
        let sum = self.sum(volume);
        sum.own = sum.own.saturating_sub(shared);
        sum.unmapped = sum.unmapped.saturating_sub(shared.saturating_add(unshared));
        sum.extents += extents;
    }

    fn sum(&mut self, volume: &Volume) -> &mut Leaving {
        if self.leaving.len() <= volume.number {
            self.leaving.resize(volume.number + 1, Leaving::default());
        }
        &mut self.leaving[volume.number]
    }

    /// The bytes of a volume that are freed.
    pub(super) fn leaving(&self, volume: &Volume) -> Leaving {
        self.leaving.get(volume.number).copied().unwrap_or_default()
    }

    /// Called after all paths have been walked. Determines which files with several names have all of them in the set.
    /// Returns the other files, by device and inode.
    pub(super) fn settle(&mut self) -> Vec<(usize, u64)> {
        let mut staying = Vec::new();
        for linked in std::mem::take(&mut self.linked) {
            let Linked { device, inode, links, leaving, shared } = linked;
            let names = self.set.inodes.get(device.number).map_or(0, |inodes| inodes.names(inode));
            if names < links {
                staying.push((device.number, inode));
                continue;
            }
            self.leave(&device.volume, leaving);
            refer(&mut self.set, &device.volume, &shared, 0, 1);
        }
        staying
    }
}

/// Adds references of a file to its shared ranges.
fn refer(part: &mut Part, volume: &Volume, shared: &[Range<u64>], count: u32, leaving: u32) {
    let (references, by) = (part.references(volume), Referrers { offset: 0, count, leaving });
    for range in shared {
        references.add_range(volume.space.at(range.start), range.end - range.start, by);
    }
}

fn count(part: &mut Part, mapped: &Mapped) {
    let totals = &mut part.totals;
    totals.files += u64::from(mapped.is_file);
    totals.apparent_bytes = totals.apparent_bytes.saturating_add(mapped.size);
    totals.disk_bytes += mapped.disk;
    totals.exclusive_bytes += mapped.own;
    totals.references += mapped.extents;
    totals.inline_bytes += mapped.inline;
    totals.is_at_most |= mapped.is_encoded;
}
