//! Hard links: the names of one wanted inode become names of one inode of the target.
//!
//! The thread that finds an inode first writes it. Other threads that find it meanwhile wait, and then link to it. A
//! waiting thread writes nothing at that time, so no thread waits for a waiting thread. For each inode with several
//! names, a path is stored until the last name was found; `inode_map` bounds the memory. If no link can be made, the
//! run decides what to do.

use super::{Attempt, Rights, Slot, Target, Temporary};
use crate::fs::metadata::{FileAttr, RefusedAttr};
use crate::fs::openat;
use crate::fs::spill::Spill;
use crate::fs::status::Status;
use crate::tree::inode_map::{Identity, InodeMap};
use crate::util::mutex::lock;
use rustix::fs::AtFlags;
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, PoisonError};

/// The inodes with several names that were found.
#[derive(Debug)]
pub(crate) struct Links {
    known: Mutex<Inodes>,
    settled: Condvar,
}

#[derive(Debug)]
struct Inodes {
    /// The inodes that a thread is writing now.
    begun: HashSet<Identity>,
    made: InodeMap<First>,
}

/// The name of an inode that was written first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct First {
    /// The path of its directory below the target.
    pub(crate) directory: Vec<u8>,
    pub(crate) name: Vec<u8>,
    /// The inode in the target. In a dry run only if it already exists.
    pub(crate) inode: Option<(u64, u64)>,
    /// The number of names not found yet.
    pub(crate) missing: u64,
    /// Set if its data may not be on the disk yet.
    pub(crate) waiting: Option<Waiting>,
    /// The flags and project id that it gets once it has all its names.
    pub(crate) seal: Option<Seal>,
    /// Set if it was there already, and was perhaps recognized only by size and time, or not compared. It must be
    /// compared before another name joins it.
    pub(crate) is_trusted: bool,
}

/// An inode with data that may not be on the disk yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) inode: (u64, u64),
    /// The name until then, if it replaces another entry.
    pub(crate) temporary: Option<Vec<u8>>,
}

/// Flags and project id.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Seal {
    flags: Option<u32>,
    project: Option<u32>,
}

impl Seal {
    /// These flags and this project id.
    pub(crate) fn of(fileattr: FileAttr) -> Seal {
        Seal { flags: fileattr.flags, project: fileattr.project }
    }

    /// The flags and the project id.
    fn fileattr(self) -> FileAttr {
        FileAttr { flags: self.flags, project: self.project }
    }
}

/// The result of linking another name.
pub(crate) enum Linked<'d> {
    /// The inode has the name, so far as a temporary name.
    Made(Temporary<BorrowedFd<'d>>),
    /// The first name now belongs to another inode, which must not get more names.
    Another,
    /// The kernel refused the link.
    Refused(Errno),
}

impl Links {
    /// No inode is known. Data that does not fit into memory is stored in an unnamed file in this directory.
    pub(crate) fn new(dir: Option<OwnedFd>) -> Links {
        let known = Inodes { begun: HashSet::new(), made: InodeMap::new(Spill::into(dir)) };
        Links { known: Mutex::new(known), settled: Condvar::new() }
    }

    /// Returns the name that was written first. `None`: the caller must write it, and then call [`Links::settle`].
    pub(crate) fn claim(&self, inode: &Identity) -> Result<Option<First>> {
        let mut known = lock(&self.known);
        while known.begun.contains(inode) {
            known = self.settled.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
        let first = known.made.get(inode)?;
        if first.is_none() {
            known.begun.insert(*inode);
        }
        Ok(first)
    }

    /// Ends a claim. `None`: the name was not written, so the next name is the first.
    pub(crate) fn settle(&self, inode: &Identity, first: Option<&First>) -> Result<()> {
        let mut known = lock(&self.known);
        known.begun.remove(inode);
        let kept = first.map_or(Ok(()), |first| known.made.insert(inode, first));
        drop(known);
        self.settled.notify_all();
        kept
    }

    /// Makes the names not found yet join this one. Their number stays as other threads left it, and is that of `first`
    /// only if nothing is known of the inode.
    pub(crate) fn replace(&self, inode: &Identity, first: First) -> Result<()> {
        let mut known = lock(&self.known);
        let missing = known.made.get(inode)?.map_or(first.missing, |now| now.missing);
        known.made.insert(inode, &First { missing, ..first })
    }

    /// Records that one more name was found. Returns the inode if this was its last name.
    pub(crate) fn came(&self, inode: &Identity) -> Result<Option<First>> {
        let mut known = lock(&self.known);
        let Some(mut first) = known.made.get(inode)? else { return Ok(None) };
        first.missing = first.missing.saturating_sub(1);
        if first.missing > 0 {
            return known.made.insert(inode, &first).map(|()| None);
        }
        known.made.remove(inode)
    }

    /// Removes all inodes with names that were not found, and passes each to `each`.
    pub(crate) fn drain(&self, each: impl FnMut(First)) -> Result<()> {
        lock(&self.known).made.drain(each)
    }
}

impl First {
    /// Its path below the target.
    pub(crate) fn path(&self) -> Vec<u8> {
        match self.directory.as_slice() {
            b"" => self.name.clone(),
            directory => [directory, b"/", &self.name].concat(),
        }
    }

    /// Seals the inode, which has all its names. `open` opens the directory of its first name. Returns the parts of the
    /// seal that were refused.
    ///
    /// # Errors
    /// `STALE` if the name now belongs to another inode.
    pub(crate) fn seal<D: AsFd>(&self, open: impl FnOnce(&[u8]) -> Result<D>) -> Result<RefusedAttr> {
        let Some(seal) = self.seal else { return Ok(RefusedAttr::default()) };
        open(&self.directory).and_then(|directory| self.open(directory)).map(|file| seal.fileattr().seal(file))
    }

    /// Opens the inode by its name in its directory.
    ///
    /// # Errors
    /// `STALE` if the name now belongs to another inode.
    pub(crate) fn open(&self, directory: impl AsFd) -> Result<OwnedFd> {
        let file = openat::open_file(directory.as_fd(), &self.name)?;
        let status = Status::of(&file)?;
        if Some((status.dev, status.ino)) == self.inode { Ok(file) } else { Err(Errno::STALE) }
    }

    /// Gives the inode a temporary name in another directory. Its first name is in the directory `from`. `may_have`:
    /// whether an inode with this status may get it.
    fn link<'d>(
        &self,
        from: impl AsFd,
        above: BorrowedFd<'d>,
        prefix: &str,
        may_have: impl FnOnce(&Status) -> bool,
    ) -> Linked<'d> {
        let link = |first: &[u8]| {
            Temporary::make(above, prefix, |name| rustix::fs::linkat(&from, first, above, name, AtFlags::empty()))
        };
        // An inode that waits has one of the two names.
        let linked = match self.waiting.as_ref().and_then(|waiting| waiting.temporary.as_ref()) {
            Some(temporary) => link(temporary).or_else(|_| link(&self.name)),
            None => link(&self.name),
        };
        match linked {
            Ok((temporary, ())) => match Status::at(above, temporary.name()) {
                Ok(status) if Some((status.dev, status.ino)) != self.inode => Linked::Another,
                Ok(status) if may_have(&status) => Linked::Made(temporary),
                Ok(_) => Linked::Refused(Errno::PERM),
                Err(_) => Linked::Another,
            },
            Err(errno) => Linked::Refused(errno),
        }
    }
}

impl<'d, T: Target> Slot<'d, '_, T> {
    /// Gives an inode another name in the directory, so far a temporary one. Its first name is in the directory `from`.
    /// An inode that belongs to somebody else than these rights say gets none.
    pub(crate) fn link(&self, first: &First, from: impl AsFd, rights: &Rights) -> Attempt<Linked<'d>> {
        let may_have = |status: &Status| !rights.is_foreign(status, self.run.creator()) || !self.keeps_owners();
        Ok(first.link(from, self.above()?.as_fd(), self.run.temporary(), may_have))
    }

    /// Whether the entry is a name of this inode now.
    pub(crate) fn is_name_of(&self, first: &First) -> bool {
        let there = self.dir().inode_of(self.name);
        there.is_some() && there == first.inode
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::thread;

    const PREFIX: &str = ".pleach-x.";

    fn first(name: &str, inode: Option<(u64, u64)>, missing: u64) -> First {
        First { directory: Vec::new(), name: name.into(), inode, missing, waiting: None, seal: None, is_trusted: false }
    }

    #[test]
    fn further_names_wait_for_the_first_and_the_last_name_ends_the_inode() {
        let dir = tempfile::tempdir().unwrap();
        let inode = Identity::of(&Status::of(File::open(dir.path()).unwrap()).unwrap());
        let links = Links::new(None);
        assert!(links.claim(&inode).unwrap().is_none());
        thread::scope(|scope| {
            let second = scope.spawn(|| links.claim(&inode).unwrap());
            links.settle(&inode, Some(&first("one", None, 2))).unwrap();
            assert_eq!(second.join().unwrap().unwrap().name, b"one");
        });
        assert!(links.came(&inode).unwrap().is_none());
        assert_eq!(links.came(&inode).unwrap().unwrap().name, b"one");
        assert!(links.claim(&inode).unwrap().is_none(), "nothing is kept of it");
    }

    #[test]
    fn another_inode_for_the_other_names_does_not_change_their_number() {
        let dir = tempfile::tempdir().unwrap();
        let inode = Identity::of(&Status::of(File::open(dir.path()).unwrap()).unwrap());
        let links = Links::new(None);
        assert!(links.claim(&inode).unwrap().is_none());
        links.settle(&inode, Some(&first("one", None, 2))).unwrap();
        let known = links.claim(&inode).unwrap().unwrap();
        // Another thread finds a name meanwhile.
        assert!(links.came(&inode).unwrap().is_none());
        links.replace(&inode, First { name: b"two".to_vec(), ..known }).unwrap();
        assert_eq!(links.came(&inode).unwrap().unwrap().name, b"two");
        assert!(links.claim(&inode).unwrap().is_none(), "nothing is kept of it");
    }

    #[test]
    fn a_name_that_could_not_be_written_leaves_the_next_one_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let inode = Identity::of(&Status::of(File::open(dir.path()).unwrap()).unwrap());
        let links = Links::new(None);
        assert!(links.claim(&inode).unwrap().is_none());
        links.settle(&inode, None).unwrap();
        assert!(links.claim(&inode).unwrap().is_none());
    }

    #[test]
    fn only_the_inode_that_was_written_gets_further_names() {
        let dir = tempfile::tempdir().unwrap();
        let open = File::open(dir.path()).unwrap();
        fs::write(dir.path().join("one"), "").unwrap();
        let status = Status::at(&open, b"one").unwrap();
        let one = first("one", Some((status.dev, status.ino)), 1);
        let Linked::Made(temporary) = one.link(&open, open.as_fd(), PREFIX, |_| true) else {
            panic!("it can be linked")
        };
        temporary.put(b"two", None).unwrap();
        assert_eq!(Status::at(&open, b"two").unwrap().ino, status.ino);
        fs::rename(dir.path().join("two"), dir.path().join("kept")).unwrap();
        fs::write(dir.path().join("other"), "").unwrap();
        fs::rename(dir.path().join("other"), dir.path().join("one")).unwrap();
        assert!(matches!(one.link(&open, open.as_fd(), PREFIX, |_| true), Linked::Another));
        assert_eq!(one.open(&open).unwrap_err(), Errno::STALE);
        fs::remove_file(dir.path().join("one")).unwrap();
        assert!(matches!(one.link(&open, open.as_fd(), PREFIX, |_| true), Linked::Refused(Errno::NOENT)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
