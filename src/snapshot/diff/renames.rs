//! Finds renamed entries among the removed and the added ones: first by inode, then files by content, each time those
//! with the same name first. Finds entries that became a directory, or the reverse, too.

use crate::fs::identity::Identity;
use crate::snapshot::manifest::{Body, Item};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// An added or removed entry: 80 bytes.
pub(super) struct Candidate {
    /// The number of its change.
    held: u32,
    /// The number of its partner.
    partner: Option<u32>,
    is_directory: bool,
    /// Identifies its inode; 0 if unknown.
    inode: u128,
    /// Identifies its content by the hash of the manifest; 0 if it has none.
    content: u128,
    /// Its size and mtime, or the target of a link. Empty files have the same shape.
    shape: u64,
    /// Mode, owner and mtime.
    state: u64,
    /// Its times. Equal times of one inode prove that its content is unchanged; 0 if they prove nothing.
    times: u64,
}

/// The candidates.
#[derive(Default)]
pub(super) struct Renames {
    removed: Vec<Candidate>,
    added: Vec<Candidate>,
}

/// The entry that an added one was renamed from.
pub(super) struct Partner {
    pub(super) held: u32,
    pub(super) content: Content,
    pub(super) has_same_state: bool,
}

/// How the content of two partners compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// It is the same.
    Same,
    /// It differs.
    Other,
    /// Only one of them has a hash, which begins so, and nothing else proves that they are the same.
    Unknown(u128),
}

impl Candidate {
    pub(super) fn new(
        item: &Item,
        identity: Option<Identity>,
        state: (u32, u32, u32, i64, u32),
        held: u32,
    ) -> Candidate {
        let meta = crate::snapshot::compare_records::meta(item);
        let (mut shape, mut content, mut is_proof) = (Digest::default(), 0, !meta.recheck && identity.is_some());
        let is_directory = match item {
            Item::Directory(_) => true,
            Item::Entry(entry) => {
                match &entry.body {
                    Body::File(file) => {
                        shape.add(&(file.size, meta.mtime));
                        content = file.hash.filter(|_| file.size > 0).map_or(0, first);
                        is_proof &= !file.changed;
                    }
                    Body::Symlink(target) => shape.add(target),
                    Body::Device(major, minor) => shape.add(&(major, minor)),
                    Body::Fifo | Body::Socket => {}
                }
                false
            }
        };
        let is_empty = matches!(item, Item::Entry(entry) if entry.file().is_some_and(|file| file.size == 0));
        let shape = shape.finish();
        let inode = (meta.ino != 0).then(|| {
            let mut inode = Digest::default();
            inode.add(&(meta.mode & 0o170_000, identity, identity.is_none().then_some(meta.dev), meta.ino, meta.btime));
            if meta.btime.is_none() {
                // Without a birth time the number may have been given to another file.
                inode.add(&(shape, is_directory.then_some(meta.mtime)));
            }
            inode.wide()
        });
        let mut own_state = Digest::default();
        own_state.add(&state);
        let state = own_state.finish();
        let shape = if is_empty { 0 } else { shape };
        let mut times = Digest::default();
        times.add(&(meta.mtime, meta.ctime));
        let times = if is_proof { times.finish() } else { 0 };
        Candidate { held, partner: None, is_directory, inode: inode.unwrap_or(0), content, shape, state, times }
    }
}

/// The beginning of a hash.
pub(super) fn first(hash: [u8; 32]) -> u128 {
    hash.iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

impl Renames {
    /// Adds a candidate, and returns its number.
    pub(super) fn add(&mut self, candidate: Candidate, is_removed: bool) -> u32 {
        let list = if is_removed { &mut self.removed } else { &mut self.added };
        list.push(candidate);
        list.len() as u32 - 1
    }

    /// The memory of the candidates, and of finding partners among them.
    pub(super) fn bytes(&self) -> usize {
        (self.removed.len() + self.added.len()) * (size_of::<Candidate>() + size_of::<(u128, u64, u32)>())
    }

    /// Finds the partners. `name` returns the last name of a change, `path` its path.
    pub(super) fn find(&mut self, name: &dyn Fn(u32) -> Vec<u8>, path: &dyn Fn(u32) -> Vec<u8>) {
        if self.removed.is_empty() || self.added.is_empty() {
            return;
        }
        let name = |candidate: &Candidate| digest(&name(candidate.held));
        self.pair(|candidate| candidate.inode, &name);
        self.pair(|candidate| candidate.inode, &|_| 0);
        self.pair(|candidate| candidate.content, &name);
        self.pair(|candidate| candidate.content, &|_| 0);
        self.pair_types(path);
    }

    /// Pairs candidates with the same key other than 0 and the same name, in their order.
    fn pair(&mut self, key: impl Fn(&Candidate) -> u128, name: &dyn Fn(&Candidate) -> u64) {
        let sorted = |list: &[Candidate]| {
            let free = list.iter().enumerate().filter(|(_, found)| found.partner.is_none() && key(found) != 0);
            let mut keys: Vec<_> = free.map(|(number, found)| (key(found), name(found), number as u32)).collect();
            keys.sort_unstable();
            keys
        };
        let (removed, added) = (sorted(&self.removed), sorted(&self.added));
        let (mut removed, mut added) = (removed.into_iter().peekable(), added.into_iter().peekable());
        while let (Some(old), Some(new)) = (removed.peek(), added.peek()) {
            match (old.0, old.1).cmp(&(new.0, new.1)) {
                Ordering::Less => drop(removed.next()),
                Ordering::Greater => drop(added.next()),
                Ordering::Equal => {
                    self.removed[old.2 as usize].partner = Some(new.2);
                    self.added[new.2 as usize].partner = Some(old.2);
                    removed.next();
                    added.next();
                }
            }
        }
    }

    /// Pairs entries that became a directory, and the reverse. The two are in different places of the order.
    fn pair_types(&mut self, path: &dyn Fn(u32) -> Vec<u8>) {
        let directories = |list: &[Candidate]| -> HashMap<u64, u32> {
            let free = list.iter().enumerate().filter(|(_, found)| found.is_directory && found.partner.is_none());
            free.map(|(number, found)| (digest(&path(found.held)), number as u32)).collect()
        };
        let pairs = |entries: &[Candidate], others: &[Candidate]| -> Vec<(u32, u32)> {
            let directories = directories(others);
            if directories.is_empty() {
                return Vec::new();
            }
            let free = entries.iter().enumerate().filter(|(_, found)| !found.is_directory && found.partner.is_none());
            let mut pairs = Vec::new();
            for (number, found) in free {
                let own = path(found.held);
                if let Some(other) = directories.get(&digest(&own))
                    && path(others[*other as usize].held) == own
                {
                    pairs.push((number as u32, *other));
                }
            }
            pairs
        };
        let became_directories = pairs(&self.removed, &self.added);
        let were_directories = pairs(&self.added, &self.removed);
        let reversed = were_directories.into_iter().map(|(added, removed)| (removed, added));
        for (removed, added) in became_directories.into_iter().chain(reversed) {
            self.removed[removed as usize].partner = Some(added);
            self.added[added as usize].partner = Some(removed);
        }
    }

    /// The partner of a candidate, and how the two differ.
    pub(super) fn partner(&self, number: u32, is_removed: bool) -> Option<Partner> {
        let (own, others) = if is_removed { (&self.removed, &self.added) } else { (&self.added, &self.removed) };
        let own = own.get(number as usize)?;
        let other = others.get(own.partner? as usize)?;
        let is_untouched = own.inode != 0 && own.inode == other.inode && own.times != 0 && own.times == other.times;
        let is_same = match (own.content, other.content) {
            _ if own.is_directory => true,
            (0, 0) => own.shape == other.shape,
            (0, known) | (known, 0) if !is_untouched => {
                let (held, has_same_state) = (other.held, own.state == other.state);
                return Some(Partner { held, content: Content::Unknown(known), has_same_state });
            }
            (0, _) | (_, 0) => true,
            (own, other) => own == other,
        };
        let content = if is_same { Content::Same } else { Content::Other };
        Some(Partner { held: other.held, content, has_same_state: own.state == other.state })
    }

    /// Whether the added and the removed candidate with these numbers are partners.
    pub(super) fn are_partners(&self, added: u32, removed: u32) -> bool {
        self.added.get(added as usize).is_some_and(|found| found.is_directory && found.partner == Some(removed))
    }
}

/// A short hash that nobody can find collisions for.
#[derive(Default)]
struct Digest(blake3::Hasher);

impl Digest {
    fn add<T: Hash + ?Sized>(&mut self, value: &T) {
        value.hash(self);
    }

    fn wide(&self) -> u128 {
        first(*self.0.finalize().as_bytes())
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        self.wide() as u64
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut digest = Digest::default();
    digest.add(bytes);
    digest.finish()
}
