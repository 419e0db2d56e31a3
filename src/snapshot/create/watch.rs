//! Notes what a run sees of its sources, for the next run: the filesystems and subvolumes in them, and up to which
//! transaction it sees each, or in which state the inodes of an XFS are. Only root can learn these, so only root's runs
//! are noted.

use crate::fs::mount_id::MountId;
use crate::fs::openat;
use crate::fs::status::{Status, Time};
use crate::monitor::Monitor;
use crate::snapshot::repository::{Part, Seen, SeenInodes, SeenSubvolume, Top};
use crate::sys::btrfs::{self, logical, transaction};
use crate::sys::xfs;
use crate::tree::sweep::{self, Digests, Sweep};
use crate::tree::walk::{Directory, Sources};
use crate::util::mutex::{self, lock};
use crate::util::path::split;
use rustix::fs::{CWD, OFlags};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;

/// The inodes of an XFS are looked at if they are at most this many times the entries of the last snapshot. It takes
/// about a quarter of the time for each that a walk takes for an entry, if they must be read from the disk.
const OTHERS: u64 = 2;

/// The last run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastRun<'a> {
    /// How many entries its snapshot has.
    pub(super) entries: u64,
    /// What it saw.
    pub(super) seen: Option<&'a Seen>,
    /// With more changes than that, everything is looked at.
    pub(super) most: usize,
}

/// What a run sees of its sources.
pub(super) struct Watch {
    sources: Sources,
    /// The UUIDs of the frozen copies of subvolumes that the run reads.
    frozen: Vec<[u8; 16]>,
    /// For each Btrfs of the sources, by its UUID, a directory of it and the last transaction before the run. The run
    /// sees all of it.
    transactions: HashMap<[u8; 16], (OwnedFd, u64)>,
    /// For each XFS of the sources, by its device, its inodes before the run. Not of one that has many more inodes than
    /// the last snapshot.
    sweeps: HashMap<u64, SweptXfs>,
    /// All changes before this time belong to these transactions and states.
    at: Time,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    tops: Vec<Top>,
    /// For each device, its number in the manifest.
    numbers: HashMap<u64, u64>,
}

/// A subvolume as it is now.
pub(super) struct Subvolume {
    pub(super) filesystem: [u8; 16],
    pub(super) root: u64,
    /// Of a frozen copy: that of the original.
    pub(super) uuid: [u8; 16],
    /// The last transaction of the state that this run sees.
    pub(super) transaction: u64,
    /// The mount of its filesystem.
    pub(super) mount: MountId,
}

/// An XFS and its inodes.
pub(super) struct SweptXfs {
    /// Its UUID.
    pub(super) filesystem: [u8; 16],
    pub(super) found: Sweep,
    fd: OwnedFd,
}

impl Watch {
    /// Commits the running transactions of the sources' filesystems. `frozen`: the UUIDs of their frozen copies.
    pub(super) fn begin(
        sources: &Sources,
        frozen: Vec<[u8; 16]>,
        last: &LastRun<'_>,
        threads: usize,
        monitor: &dyn Monitor,
    ) -> Watch {
        let (at, mut transactions, mut sweeps) = (Time::now(), HashMap::new(), HashMap::<u64, SweptXfs>::new());
        for path in sources.paths() {
            let Ok(fd) = open(path.as_os_str().as_bytes()) else { continue };
            if let Ok(filesystem) = btrfs::filesystem_uuid(&fd) {
                if let Entry::Vacant(unknown) = transactions.entry(filesystem)
                    && let Ok(number) = commit(&fd)
                {
                    unknown.insert((fd, number));
                }
            } else if let Ok(Status { dev, .. }) = Status::of(&fd)
                && let Entry::Vacant(unknown) = sweeps.entry(dev)
                && let Some(swept) = sweep(fd, last, threads, monitor)
            {
                unknown.insert(swept);
            }
        }
        // A filesystem and a copy of its device have the same UUID, and would be taken for each other next time.
        let of_sweeps: Vec<_> = sweeps.values().map(|swept| swept.filesystem).collect();
        sweeps.retain(|_, swept| of_sweeps.iter().filter(|uuid| **uuid == swept.filesystem).count() == 1);
        Watch { sources: sources.clone(), frozen, transactions, sweeps, at, found: Mutex::default() }
    }

    /// The run sees all changes before this time.
    pub(super) fn at(&self) -> Time {
        self.at
    }

    /// Opens the directory at `path` as the walk does: in the frozen copy of its subvolume, if there is one.
    pub(super) fn open(&self, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        let mut above = path;
        while !self.frozen.is_empty() && !above.is_empty() {
            if let Some(frozen) = self.sources.stand_in(above) {
                let below = path[above.len()..].strip_prefix(b"/").unwrap_or_default();
                let opened = if below.is_empty() { Ok(frozen) } else { openat::open_dir(frozen.as_fd(), below) };
                match opened {
                    Ok(fd) if Status::of(&fd)?.ino != logical::EMPTY_SUBVOLUME => return Ok(fd),
                    // A subvolume below a frozen one is read live.
                    _ => break,
                }
            }
            above = split(above).0;
        }
        open(path)
    }

    /// A directory of the filesystem with this UUID.
    pub(super) fn filesystem(&self, uuid: &[u8; 16]) -> Option<BorrowedFd<'_>> {
        self.transactions.get(uuid).map(|(fd, _)| fd.as_fd())
    }

    /// The subvolume of an open directory. `None`: nothing is known of its transactions.
    pub(super) fn subvolume(&self, fd: BorrowedFd<'_>) -> Option<Subvolume> {
        let filesystem = btrfs::filesystem_uuid(fd).ok()?;
        let (_, committed) = self.transactions.get(&filesystem)?;
        let found = logical::subvolume(fd).ok()?;
        let (uuid, transaction) = match self.frozen.contains(&found.uuid) {
            true => (found.parent_uuid, found.created),
            false => (found.uuid, *committed),
        };
        Some(Subvolume { filesystem, root: found.id, uuid, transaction, mount: MountId::of(fd)? })
    }

    /// The XFS with this device, if its inodes are known.
    pub(super) fn sweep(&self, dev: u64) -> Option<&SweptXfs> {
        self.sweeps.get(&dev)
    }

    /// Notes a directory of the walk, if a source, another filesystem or another subvolume begins with it. `recorded`:
    /// the number of a device in the last manifest. `is_taken`: whether that manifest has such a number.
    pub(super) fn enter<P>(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<P>>,
        recorded: impl Fn(u64) -> Option<u64>,
        is_taken: impl Fn(u64) -> bool,
    ) {
        let begins = |parent: &Directory<P>| parent.scaffold || parent.status.dev != directory.status.dev;
        if directory.scaffold || !parent.is_none_or(begins) {
            return;
        }
        let (path, Status { dev, ino, .. }) = (directory.path.clone(), directory.status);
        let subvolume = self.subvolume(directory.fd.as_fd()).map(|now| {
            let Subvolume { filesystem, uuid, transaction, mount, .. } = now;
            Part::Subvolume(SeenSubvolume { filesystem, uuid, transaction, mount })
        });
        let part = subvolume.or_else(|| self.sweep(dev).map(|swept| Part::Xfs(swept.filesystem)));
        let mut found = lock(&self.found);
        let dev = *found.numbers.entry(dev).or_insert_with(|| recorded(dev).unwrap_or_else(|| free(dev, is_taken)));
        found.tops.push(Top { path, ino, dev, part });
    }

    /// The number of a device in the manifest. Records that are taken over from the last manifest have the numbers of
    /// that time, so all records of a filesystem have to.
    pub(super) fn number(&self, dev: u64) -> u64 {
        lock(&self.found).numbers.get(&dev).copied().unwrap_or(dev)
    }

    /// The directories that were noted, and the inodes of each XFS. Changes that the run saw, and that belong to later
    /// transactions, are on the disk then: otherwise a power cut could take them back, and the next run would not
    /// notice. `None` if that fails.
    pub(super) fn end(self) -> Option<(Vec<Top>, Vec<SeenInodes>)> {
        self.transactions.values().try_for_each(|(fd, _)| commit(fd).map(|_| ())).ok()?;
        self.sweeps.values().try_for_each(|swept| rustix::fs::syncfs(&swept.fd)).ok()?;
        let mut tops = mutex::into_inner(self.found).tops;
        tops.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let swept = self.sweeps.into_values();
        let swept = swept.map(|SweptXfs { filesystem, found, .. }| SeenInodes { filesystem, digests: found.digests });
        let swept = swept.collect();
        Some((tops, swept))
    }
}

/// Looks at the inodes of an XFS. `None` if it is not an XFS, if they are too many, or if they cannot be listed.
fn sweep(fd: OwnedFd, last: &LastRun<'_>, threads: usize, monitor: &dyn Monitor) -> Option<SweptXfs> {
    let filesystem = xfs::geometry(&fd).ok()?.uuid;
    if xfs::used_inodes(&fd).ok()? > last.entries.saturating_mul(OTHERS) {
        return None;
    }
    let mut swept = last.seen.into_iter().flat_map(|seen| &seen.swept);
    let then = swept.find(|swept| swept.filesystem == filesystem);
    let then = then.map(|swept| (Digests::of(&swept.digests), last.most));
    monitor.phase("looking for changes", None);
    let found = sweep::sweep(fd.as_fd(), then, threads, || !monitor.is_cancelled()).ok()?;
    Some(SweptXfs { filesystem, found, fd })
}

/// Writes all data of a filesystem to the disk and commits its transaction, and returns the number of that.
fn commit(fd: &OwnedFd) -> rustix::io::Result<u64> {
    rustix::fs::syncfs(fd)?;
    transaction::commit(fd)
}

/// A number for a new device: its own, if the last manifest does not use that for another one.
fn free(dev: u64, is_taken: impl Fn(u64) -> bool) -> u64 {
    (0..).map(|more: u64| dev.wrapping_add(more << 40)).find(|number| !is_taken(*number)).unwrap_or(dev)
}

/// Opens a directory by its path, with or without the leading slash. A path through a symbolic link is refused.
fn open(path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, c"/", flags, rustix::fs::Mode::empty())?;
    match path.strip_prefix(b"/").unwrap_or(path) {
        b"" => Ok(root),
        path => openat::open_dir(root.as_fd(), path),
    }
}
