//! The filesystems that a run reads from: the identity of each, and the clock of its timestamps. Each device is queried
//! once.

use crate::fs::identity::{self, Identity};
use crate::fs::status::Status;
use crate::fs::timestamp::{Clock, may_have_changed_since};
use crate::snapshot::manifest::{Entry, Meta, Origin, Reader, Time, VERSION};
use crate::util::mutex::lock;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

/// A file on a server may have been seen twice with the same ctime. If the two times are so long apart, in nanoseconds,
/// it was read after the tick of that ctime was over, whatever the server's clock shows.
const SEEN_TWICE: i128 = 10_000_000_000;

/// The filesystems of a run.
#[derive(Debug)]
pub(super) struct Devices {
    /// When the run began; `None` in a dry run.
    begun: Option<Time>,
    previous: Option<Last>,
    known: Mutex<HashMap<u64, Device>>,
}

/// Facts about the last snapshot.
#[derive(Debug)]
struct Last {
    version: u32,
    created: Time,
    identities: HashMap<u64, Identity>,
}

/// A filesystem of this run.
#[derive(Clone, Copy, Debug)]
struct Device {
    identity: Option<Identity>,
    clock: Clock,
}

/// How a device of this run relates to one of the last run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relation {
    /// Both devices' numbers.
    devs: (u64, u64),
    /// Whether inode numbers and times mean the same on both.
    is_same: bool,
    clock: Clock,
}

impl Devices {
    /// The filesystems of a run that compares with the snapshot of this manifest.
    pub(super) fn new(previous: Option<&Reader>, begun: Option<Time>) -> Devices {
        let previous = previous.map(|reader| Last {
            version: reader.version(),
            created: reader.header().created,
            identities: reader.origins().iter().map(|origin| (origin.dev, origin.identity)).collect(),
        });
        Devices { begun, previous, known: Mutex::default() }
    }

    /// The identity of the device `dev`; `fd` is a file or directory on it.
    pub(super) fn identity(&self, dev: u64, fd: impl AsFd) -> Option<Identity> {
        self.device(dev, fd.as_fd()).identity
    }

    /// The identity of a device that was found already.
    pub(super) fn known_identity(&self, dev: u64) -> Option<Identity> {
        lock(&self.known).get(&dev).and_then(|device| device.identity)
    }

    /// All filesystems that were found and can be recognised again, for the manifest.
    pub(super) fn origins(&self) -> Vec<Origin> {
        let known = lock(&self.known);
        let mut origins: Vec<Origin> = known
            .iter()
            .filter_map(|(dev, device)| device.identity.map(|identity| Origin { dev: *dev, identity }))
            .collect();
        origins.sort_unstable_by_key(|origin| origin.dev);
        origins
    }

    /// How the device `dev` relates to the last snapshot's `old_dev`; `fd` is a file or directory on `dev`.
    pub(super) fn relation(&self, old_dev: u64, dev: u64, fd: impl AsFd) -> Relation {
        let device = self.device(dev, fd.as_fd());
        let is_same = match (&self.previous, device.identity) {
            (Some(Last { version: VERSION.., identities, .. }), Some(now)) => identities.get(&old_dev) == Some(&now),
            // Older manifests do not record identities. Records of an image that cannot be recognised are not trusted.
            (Some(_), now) => now.is_some(),
            (None, _) => false,
        };
        Relation { devs: (old_dev, dev), is_same, clock: device.clock }
    }

    /// Whether an unchanged ctime proves that this inode still matches its record.
    pub(super) fn is_settled(&self, old: &Meta, relation: &Relation) -> bool {
        let is_old_enough = |last: &Last| match last.version {
            VERSION.. => !old.recheck,
            _ => !may_have_changed_since(old.ctime, last.created, relation.clock),
        };
        relation.is_same && self.previous.as_ref().is_some_and(is_old_enough)
    }

    /// Whether an inode that was just read may change without a change of its ctime. `old` is its record in the last
    /// snapshot, `fd` a file or directory of its filesystem.
    pub(super) fn may_change_unnoticed(&self, meta: &Meta, old: Option<&Entry>, fd: impl AsFd) -> bool {
        let Some(begun) = self.begun else { return false };
        let clock = self.device(meta.dev, fd.as_fd()).clock;
        may_have_changed_since(meta.ctime, begun, clock)
            && !old
                .is_some_and(|old| clock == Clock::Remote && self.was_seen_before(meta, &old.meta, begun, fd.as_fd()))
    }

    /// Whether the last run, some seconds ago, found the inode with the same ctime.
    fn was_seen_before(&self, meta: &Meta, old: &Meta, begun: Time, fd: BorrowedFd<'_>) -> bool {
        let nanoseconds = |time: Time| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
        let is_long_ago = |last: &Last| nanoseconds(begun).saturating_sub(nanoseconds(last.created)) >= SEEN_TWICE;
        (old.ino, old.ctime, old.mtime) == (meta.ino, meta.ctime, meta.mtime)
            && self.previous.as_ref().is_some_and(is_long_ago)
            && self.relation(old.dev, meta.dev, fd).is_same
    }

    fn device(&self, dev: u64, fd: BorrowedFd<'_>) -> Device {
        *lock(&self.known)
            .entry(dev)
            .or_insert_with(|| Device { identity: identity::of(fd), clock: Clock::of(fd).unwrap_or(Clock::Remote) })
    }
}

impl Relation {
    /// Whether this is the relation of these devices.
    pub(super) fn is_of(&self, old_dev: u64, status: &Status) -> bool {
        self.devs == (old_dev, status.dev)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::manifest::Body;
    use std::fs::File;

    const DEV: u64 = 42;
    const SERVER: Identity = [1; 16];

    fn at(seconds: i64) -> Time {
        Time { seconds, nanos: 7 }
    }

    /// A run at 200,000 after one at `created`, with a source on this clock.
    fn devices(created: i64, clock: Clock, before: Identity) -> Devices {
        let previous =
            Some(Last { version: VERSION, created: at(created), identities: HashMap::from([(DEV, before)]) });
        let known = Mutex::new(HashMap::from([(DEV, Device { identity: Some(SERVER), clock })]));
        Devices { begun: Some(at(200_000)), previous, known }
    }

    fn entry(ctime: i64) -> Entry {
        let meta = Meta { dev: DEV, ino: 5, ctime: at(ctime), ..Meta::default() };
        Entry { name: b"name".to_vec(), meta, body: Body::Fifo }
    }

    #[test]
    fn a_file_on_a_server_is_settled_after_a_day_or_when_it_was_seen_twice() {
        let fd = File::open("/").unwrap();
        let (young, old) = (entry(199_000), entry(100_000));
        let (local, remote) = (devices(190_000, Clock::Local, SERVER), devices(190_000, Clock::Remote, SERVER));
        assert!(!local.may_change_unnoticed(&young.meta, None, &fd));
        assert!(remote.may_change_unnoticed(&young.meta, None, &fd));
        assert!(!remote.may_change_unnoticed(&old.meta, None, &fd));
        assert!(!remote.may_change_unnoticed(&young.meta, Some(&young), &fd));
        assert!(remote.may_change_unnoticed(&young.meta, Some(&entry(199_001)), &fd), "it has changed since");
        let at_once = devices(199_999, Clock::Remote, SERVER);
        assert!(at_once.may_change_unnoticed(&young.meta, Some(&young), &fd));
        let other = devices(190_000, Clock::Remote, [2; 16]);
        assert!(other.may_change_unnoticed(&young.meta, Some(&young), &fd));
    }

    #[test]
    fn nothing_is_settled_on_another_filesystem_or_if_it_was_marked() {
        let fd = File::open("/").unwrap();
        let old = entry(100);
        let same = devices(190_000, Clock::Local, SERVER);
        let relation = same.relation(DEV, DEV, &fd);
        assert!(same.is_settled(&old.meta, &relation));
        assert!(!same.is_settled(&Meta { recheck: true, ..old.meta.clone() }, &relation));
        assert!(!same.is_settled(&old.meta, &same.relation(DEV + 1, DEV, &fd)));
        let other = devices(190_000, Clock::Local, [2; 16]);
        assert!(!other.is_settled(&old.meta, &other.relation(DEV, DEV, &fd)));
        assert_eq!(same.origins(), [Origin { dev: DEV, identity: SERVER }]);
    }

    #[test]
    fn older_manifests_are_judged_by_their_moment() {
        let fd = File::open("/").unwrap();
        let mut devices = devices(190_000, Clock::Local, [2; 16]);
        devices.previous = devices.previous.map(|last| Last { version: 2, identities: HashMap::new(), ..last });
        let relation = devices.relation(DEV, DEV, &fd);
        assert!(devices.is_settled(&entry(189_999).meta, &relation));
        assert!(!devices.is_settled(&entry(190_000).meta, &relation));
    }
}
