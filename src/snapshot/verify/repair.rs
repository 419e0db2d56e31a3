//! Replaces damaged files of snapshots by sound copies, after a verification found them. All files that must have one
//! hash get clones of one new file.
//!
//! A damaged file is never written to. `replace` makes a new file beside it, checks it, and renames it. Names that were
//! links to one inode get one new inode. `repository::Reopened` notes the changes, for the next run if this one is
//! killed.

use super::context::Snapshot;
use super::findings::Finding;
use super::origin::Origin;
use super::partners::{Partner, Partners};
use super::replace::{Maker, Replacement};
use super::work::{self, Work};
use crate::content::copy;
use crate::error::{Error, Result};
use crate::fs::metadata::set_times;
use crate::fs::openat;
use crate::fs::shutdown;
use crate::fs::status::Status;
use crate::monitor::{self, Amount, Monitor};
use crate::snapshot::repository::{Clearing, Reopened, Repository};
use crate::tree::walk::absolute;
use crate::util::path::split;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A repair.
struct Repair<'a> {
    repository: &'a Repository,
    snapshots: &'a [Snapshot],
    origin: &'a Origin,
    monitor: &'a dyn Monitor,
    maker: Maker<'a>,
    /// The trees that are changed.
    trees: BTreeMap<usize, Reopened>,
    /// Directories with another modification time than their record.
    changed_dirs: HashSet<(usize, Vec<u8>)>,
    partners: Partners,
    done: Done,
}

/// What a repair did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) repaired: u64,
    pub(super) errors: u64,
}

/// A file that was repaired.
struct Repaired {
    /// Where its content is from.
    from: PathBuf,
    /// Whether its directory has its time and is on the disk.
    directory: Result<()>,
}

/// The new files of one content.
#[derive(Default)]
struct Made {
    /// One of them: its snapshot and path.
    first: Option<(usize, Vec<u8>)>,
    /// Those that replaced an inode with several names, by that inode's device and number.
    links: HashMap<(u64, u64), (usize, Vec<u8>)>,
}

/// Repairs the damage that was found. Sets `done`, also before an error. Entries that cannot be repaired stay as they
/// are.
///
/// # Errors
/// If the run should stop.
pub(super) fn repair(
    repository: &Repository,
    snapshots: &[Snapshot],
    origin: &Origin,
    findings: Vec<Finding>,
    monitor: &dyn Monitor,
    done: &mut Done,
) -> Result<()> {
    let (works, changed_dirs) = work::of(snapshots, findings);
    let bytes = works.iter().map(|work| work.size).sum();
    monitor.phase("repairing", Some(Amount { files: works.len() as u64, bytes }));
    let mut repair = Repair {
        repository,
        snapshots,
        origin,
        monitor,
        maker: Maker::new(monitor),
        trees: BTreeMap::new(),
        changed_dirs,
        partners: Partners::find(snapshots, &works),
        done: Done::default(),
    };
    let mut result = Ok(());
    for works in works.chunk_by(Work::has_same_content) {
        result = repair.group(works);
        if result.is_err() {
            break;
        }
    }
    // Also after an error: the trees must not stay open.
    let clearing = Clearing::new(monitor);
    for (snapshot, tree) in std::mem::take(&mut repair.trees) {
        if let Err(error) = tree.close(repository, &clearing) {
            let name = &snapshots[snapshot].name;
            let hint = format!("the repaired files of the snapshot {name} are in place; the next run completes it");
            repair.problem(&error.hint_also(&hint));
        }
    }
    *done = repair.done;
    done.errors += clearing.errors();
    result
}

impl Repair<'_> {
    /// Repairs the files that must have one content.
    fn group(&mut self, works: &[Work]) -> Result<()> {
        let mut made = Made::default();
        for work in works {
            if self.monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            match self.file(work, &mut made) {
                Ok(Some(Repaired { from, directory })) => {
                    self.report(work.snapshot, &work.path, &from);
                    match directory {
                        Ok(()) => self.report_directory(work, &from),
                        Err(error) => self.failed(error.hint("the file is repaired"))?,
                    }
                }
                Ok(None) => {}
                Err(error) => self.failed(error)?,
            }
            self.monitor.advance(Amount { files: 1, bytes: 0 });
        }
        Ok(())
    }

    /// Repairs a file. `None` if there is no sound copy.
    fn file(&mut self, work: &Work, made: &mut Made) -> Result<Option<Repaired>> {
        let first = made.first.as_ref().and_then(|place| self.open_made(place));
        let is_checked = first.is_some();
        let (path, size) = (&work.path, work.size);
        let Some(source) = first.or_else(|| self.origin.file(path, size).ok()).or_else(|| self.partner(work)) else {
            return Ok(None);
        };
        let Some(entry) = work::entry(&self.snapshots[work.snapshot], path)? else { return Ok(None) };
        let shown = self.repository.path().join(&self.snapshots[work.snapshot].name).join(OsStr::from_bytes(path));
        let failed = |action: &str, errno: Errno| Error::io(action, &shown, errno);
        let (above, name) = split(path);
        let dir = self.open_dir(work.snapshot, above)?;
        let before = Status::of(&dir).map_err(|errno| failed("read the status of the directory of", errno))?;
        let mtime = match self.changed_dirs.contains(&(work.snapshot, above.to_vec())) {
            true => work::directory(&self.snapshots[work.snapshot], above)?.map_or(before.mtime, |meta| meta.mtime),
            false => before.mtime,
        };
        let repository = self.repository;
        if let Some(tree) = self.trees.get_mut(&work.snapshot) {
            tree.note(repository, above, mtime)?;
        }
        let existing = match Status::at(&dir, name) {
            Err(Errno::NOENT) => None,
            existing => Some(existing.map_err(|errno| failed("read the status of", errno))?),
        };
        let replacement = Replacement { dir: &dir, name, existing, entry: &entry, hash: work.hash, shown: &shown };
        let replaced = self.replace(work, &replacement, &source, is_checked, made);
        if let Ok(Some(_)) = replaced {
            self.note_made(work, existing, made);
        }
        // Also if it failed: a temporary name was there.
        let timed = set_times(&dir, before.atime, mtime);
        let timed = timed.map_err(|errno| failed("set the times of the directory of", errno));
        if timed.is_err()
            && let Some(tree) = self.trees.get_mut(&work.snapshot)
        {
            tree.tidy_at_end();
        }
        match replaced {
            Ok(Some(from)) => {
                let synced = shutdown::sync_directory(&dir).map_err(|errno| failed("sync the directory of", errno));
                Ok(Some(Repaired { from, directory: timed.and(synced) }))
            }
            Ok(None) => timed.map(|()| None),
            Err(error) => {
                if let Err(timed) = timed {
                    self.problem(&timed);
                }
                Err(error)
            }
        }
    }

    /// Notes a new file as soon as it is in its place: whatever fails later, it is a sound copy for others.
    fn note_made(&mut self, work: &Work, replaced: Option<Status>, made: &mut Made) {
        let place = (work.snapshot, work.path.clone());
        if let Some(old) = replaced.filter(|old| old.nlink > 1) {
            made.links.entry((old.dev, old.ino)).or_insert_with(|| place.clone());
        }
        self.partners.made(work);
        made.first.get_or_insert(place);
    }

    /// Puts another name of a sound inode, or a new file, in the place of a file.
    fn replace(
        &self,
        work: &Work,
        replacement: &Replacement<'_>,
        source: &OwnedFd,
        is_checked: bool,
        made: &Made,
    ) -> Result<Option<PathBuf>> {
        let origin = || Some(self.origin.name().to_path_buf());
        // The last of its names has no others any more.
        let linked = replacement
            .existing
            .and_then(|old| made.links.get(&(old.dev, old.ino)))
            .and_then(|place| self.open_made(place));
        if linked.is_some_and(|inode| replacement.link(&inode).is_ok()) {
            return Ok(origin());
        }
        if let Some(inode) = self.partner(work)
            && replacement.link(&inode).is_ok()
        {
            let is_made = self.partners.of(work).is_some_and(|partner| partner.is_made);
            return Ok(if is_made { origin() } else { Some(self.snapshots[work.snapshot].name.clone().into()) });
        }
        let is_replaced = self.maker.replace(replacement, source, is_checked)?;
        Ok(if is_replaced { origin() } else { None })
    }

    /// Another name of the same inode in the snapshot, if its content is sound.
    fn partner(&self, work: &Work) -> Option<OwnedFd> {
        let Partner { path, is_made } = self.partners.of(work)?;
        let file = self.open_made(&(work.snapshot, path.clone()))?;
        (*is_made || self.maker.is_sound(&file, work.size, work.hash)).then_some(file)
    }

    fn open_made(&self, (snapshot, path): &(usize, Vec<u8>)) -> Option<OwnedFd> {
        openat::open_regular_at(self.snapshots[*snapshot].tree.as_fd(), path).ok()
    }

    /// Opens a directory of a snapshot for changes.
    fn open_dir(&mut self, snapshot: usize, path: &[u8]) -> Result<OwnedFd> {
        let name = &self.snapshots[snapshot].name;
        if !self.trees.contains_key(&snapshot) {
            self.trees.insert(snapshot, Reopened::open(self.repository, name)?);
        }
        let failed = |errno| {
            Error::io("open the directory", self.repository.path().join(name).join(OsStr::from_bytes(path)), errno)
        };
        let tree = self.trees.get(&snapshot).ok_or(Errno::BADF).map_err(failed)?;
        openat::open_dir(tree.tree(), path).map_err(failed)
    }

    fn report(&mut self, snapshot: usize, path: &[u8], from: &Path) {
        let snapshot = &self.snapshots[snapshot].name;
        self.monitor.repaired(&monitor::Repaired { snapshot, path: &absolute(path), from });
        self.done.repaired += 1;
    }

    /// Reports that the directory of a file got its recorded time.
    fn report_directory(&mut self, work: &Work, from: &Path) {
        let above = split(&work.path).0.to_vec();
        if self.changed_dirs.remove(&(work.snapshot, above.clone())) {
            self.report(work.snapshot, &above, from);
        }
    }

    /// Reports a file that could not be repaired, or a step after its repair.
    ///
    /// # Errors
    /// If every other file would fail too.
    fn failed(&mut self, error: Error) -> Result<()> {
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        if error.kind() == crate::error::ErrorKind::Interrupted || errno.is_some_and(copy::is_fatal) {
            return Err(error);
        }
        self.problem(&error);
        Ok(())
    }

    fn problem(&mut self, error: &Error) {
        self.monitor.problem(error);
        self.done.errors += 1;
    }
}
