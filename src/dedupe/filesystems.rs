//! The filesystems and subvolumes that the walk has reached, each recorded once. They are distinguished by their own
//! identity, not by `st_dev` alone.

use super::catalogue::{Subvolume, Volume};
use super::durable::Disks;
use crate::extents::address_space::AddressSpace;
use crate::fs::filesystem::{Filesystem, Id, Kind};
use crate::fs::mount_id::MountId;
use crate::fs::status::Status;
use crate::sys::btrfs::logical;
use crate::sys::uuid;
use crate::util::mutex::{self, lock};
use rustix::io::Result;
use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard};

/// The filesystems and subvolumes found so far. Shared by the walk's threads.
#[derive(Debug, Default)]
pub(super) struct Filesystems {
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    by_dev: HashMap<u64, (Kind, Option<u16>)>,
    subvolumes: Vec<Subvolume>,
    volumes: Vec<Volume>,
    disks: Disks,
    reported: HashSet<u64>,
}

impl Filesystems {
    /// The kind of the filesystem of an open directory, and the number of its subvolume if files there can share
    /// extents.
    pub(super) fn find(&self, fd: impl AsFd, status: &Status) -> Result<(Kind, Option<u16>)> {
        if let Some(found) = self.found().by_dev.get(&status.dev) {
            return Ok(*found);
        }
        let statfs = rustix::fs::fstatfs(&fd)?;
        let kind = Kind::from_statfs(&statfs);
        if !can_share(kind) {
            self.found().by_dev.insert(status.dev, (kind, None));
            return Ok((kind, None));
        }
        let id = Filesystem::identify(&fd)?;
        let uuid = match id {
            Id::Btrfs(uuid) => uuid,
            Id::Device(dev) => uuid::of_filesystem(&fd).unwrap_or_else(|_| u128::from(dev).to_le_bytes()),
        };
        // Both may fail without risk to the data: the cache then knows less, or another source is chosen.
        let subvolume = if kind == Kind::Btrfs { logical::subvolume(&fd).ok() } else { None };
        let unknown = if kind == Kind::Btrfs { status.dev } else { 0 };
        let number = subvolume.as_ref().map_or(unknown, |subvolume| subvolume.id);
        let read_only = subvolume.is_some_and(|subvolume| subvolume.read_only);
        let session = MountId::of(&fd).map(|session| session.hash());
        let space = AddressSpace::from(id).id();
        let volume = Volume { id, space, kind, block_size: statfs.f_bsize as u64, uuid, session };
        Ok((kind, self.found().add(status.dev, volume, number, read_only)))
    }

    /// Notes that the files of this open directory, which is in this subvolume, are in scope.
    pub(super) fn use_directory(&self, fd: impl AsFd, subvolume: u16) {
        let mut found = self.found();
        if let Some(volume) = found.subvolumes.get(usize::from(subvolume)).map(|subvolume| subvolume.volume) {
            found.disks.add(volume, fd);
        }
    }

    /// Whether this device was not reported before.
    pub(super) fn is_first_of(&self, dev: u64) -> bool {
        self.found().reported.insert(dev)
    }

    pub(super) fn into_parts(self) -> (Vec<Subvolume>, Vec<Volume>, Disks) {
        let found = mutex::into_inner(self.found);
        (found.subvolumes, found.volumes, found.disks)
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        lock(&self.found)
    }
}

impl Found {
    fn add(&mut self, dev: u64, volume: Volume, number: u64, read_only: bool) -> Option<u16> {
        // Another thread may have added it meanwhile.
        if let Some((_, found)) = self.by_dev.get(&dev) {
            return *found;
        }
        let known = self.volumes.iter().position(|known| known.id == volume.id);
        let at = known.unwrap_or(self.volumes.len());
        // Files beyond 65,536 subvolumes are skipped.
        let subvolume = u16::try_from(at).ok().zip(u16::try_from(self.subvolumes.len()).ok());
        let found = subvolume.map(|(at, next)| {
            self.subvolumes.push(Subvolume { dev, volume: at, number, read_only });
            next
        });
        if known.is_none() && found.is_some() {
            self.volumes.push(volume);
        }
        self.by_dev.insert(dev, (volume.kind, found));
        found
    }
}

/// Whether files on this filesystem can share extents by FIDEDUPERANGE. An XFS made without reflinks reports that at
/// the first call.
fn can_share(kind: Kind) -> bool {
    matches!(kind, Kind::Xfs | Kind::Btrfs | Kind::Bcachefs)
}
