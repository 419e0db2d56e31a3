//! Compares two snapshots, or a snapshot with the sources as they are now.
//!
//! `stream` has the records of a snapshot, `live` makes those of the sources; `merge` passes both in step,
//! `compare_records.rs` compares two records. `changes` holds the differences back until `renames` has found which
//! removed and added entries are the same; `difference` is the form in which they are reported.

mod changes;
mod difference;
mod live;
mod merge;
mod renames;
mod stats;
mod stream;

pub use difference::{Difference, Facts};
pub use stats::Stats;

use super::compare_records::{Judge, Side};
use super::devices::Devices;
use super::live_record;
use super::manifest::{Item, Reader};
use super::part::Part;
use super::repository::{self, Repository};
use super::skipped::Skipped;
use super::source_path::normal;
use crate::error::{Error, Result};
use crate::fs::procfs;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::tree::walk::{self, Sources};
use crate::util::path::{is_below, join};
use crate::util::text;
use changes::{Changes, Report};
use difference::{Top, Trees};
use live::{LiveVisitor, Unread};
use merge::Merge;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use stream::Stream;

/// The word for the sources as they are now, in the place of a snapshot.
pub const LIVE: &str = repository::LIVE;

/// How to compare.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Compare only this path: the absolute path of a directory with everything in it, or of one entry.
    pub path: Option<PathBuf>,
    /// Bytes of memory for changes that are held back to find renames. A change takes about 60 bytes, an added or
    /// removed entry 150, and each the length of its name. When the memory is full, further renamed entries are
    /// reported as removed and added ones.
    pub rename_memory: usize,
    /// How many threads read the sources; by default as many as there are processors.
    pub threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options { path: None, rename_memory: 512 << 20, threads: None }
    }
}

/// Compares the snapshots `old` and `new` of the repository at `repo`, and passes each difference to `report`, in the
/// order of the tree: a directory, its entries by name, its subdirectories by name. `new` may be [`LIVE`].
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, diff};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// create::create(&[source.clone()], &repo, &create::Options::default(), &Silent)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
///
/// let mut found = Vec::new();
/// let mut report = |difference: &diff::Difference<'_>| {
///     found.push(difference.path.file_name().unwrap().to_os_string());
///     Ok(())
/// };
/// diff::diff(&repo, ("latest", diff::LIVE), &diff::Options::default(), &Silent, &mut report)?;
/// assert_eq!(found, ["letter"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a snapshot cannot be opened, neither side has the path, the run is cancelled, or `report` returns an error. A
/// part that cannot be compared is reported to the monitor and counted.
pub fn diff(
    repo: &Path,
    (old, new): (&str, &str),
    options: &Options,
    monitor: &dyn Monitor,
    report: &mut dyn FnMut(&Difference<'_>) -> Result<()>,
) -> Result<Stats> {
    let begun = Instant::now();
    procfs::require()?;
    if old == LIVE {
        return Err(Error::usage("compare the live tree with a snapshot").hint("`live` can only be the second"));
    }
    let path = options.path.as_deref().map(|path| normal("compare", path)).transpose()?;
    let repository = Repository::open(repo)?;
    let compared = Compared { repository: &repository, old: repository.resolve(old)?.name, path, options, monitor };
    let mut stats = if new == LIVE {
        compared.with_live(report)?
    } else {
        compared.with(&repository.resolve(new)?.name, report)?
    };
    stats.old = compared.old;
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// The old side of a comparison, and how to compare.
struct Compared<'a> {
    repository: &'a Repository,
    old: String,
    path: Option<Vec<u8>>,
    options: &'a Options,
    monitor: &'a dyn Monitor,
}

impl Compared<'_> {
    fn with(&self, name: &str, report: Report<'_>) -> Result<Stats> {
        let [old, new] = [self.repository.manifest(&self.old)?, self.repository.manifest(name)?];
        let names = (self.old.clone(), name.to_string());
        let trees =
            Trees { old: self.repository.tree(&self.old)?, new: self.repository.tree(name)?, names, is_live: false };
        let parts = [self.part(&old)?, self.part(&new)?];
        if let [None, None] = parts {
            return Err(self.missing(&format!("the snapshots {} and {name}", self.old)));
        }
        let expected = Amount { files: new.totals().entries(), bytes: 0 };
        self.monitor.phase("comparing", Some(expected).filter(|_| self.path.is_none()));
        let judge = Judge { old: Side::snapshot(&old, &trees.old), new: Side::snapshot(&new, &trees.new) };
        let top = self.top(&[&old, &new]);
        let changes = Changes::new(report, &trees, top, self.options.rename_memory, self.monitor);
        let records = Stream::of(&old, parts[0].as_ref())?;
        let (old_incomplete, skipped) = (self.skipped(&self.old, &old).is_some(), self.skipped(name, &new));
        let mut merge = Merge::new(records, judge, changes, None, skipped.as_ref(), self.monitor);
        let mut records = Stream::of(&new, parts[1].as_ref())?;
        loop {
            if self.monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            let (found, has_gap) = records.next(&mut |error| self.monitor.problem(error));
            if has_gap {
                merge.note_gap();
            }
            let Some((directory, item)) = found else { break };
            merge.push(&directory, &item)?;
        }
        let (changes, errors) = merge.finish()?;
        let new_incomplete = skipped.is_some();
        Ok(Stats { new: name.to_string(), errors, old_incomplete, new_incomplete, ..changes.finish()? })
    }

    fn with_live(&self, report: Report<'_>) -> Result<Stats> {
        let old = self.repository.manifest(&self.old)?;
        let names = (self.old.clone(), LIVE.to_string());
        let trees = Trees { old: self.repository.tree(&self.old)?, new: difference::root()?, names, is_live: true };
        let part = self.part(&old)?;
        let sources = self.sources(&old)?;
        if part.is_none() && sources.vanished().count() > 0 {
            return Err(self.missing(&format!("the snapshot {} and the live tree", self.old)));
        }
        self.monitor.phase("comparing", None);
        let devices = Devices::new(Some(&old), None);
        let unread = Unread::default();
        let repository = Status::of(self.repository.fd())
            .map_err(|errno| Error::io("read the status of the repository", self.repository.path(), errno))?;
        let visitor = LiveVisitor {
            manifest: &old,
            devices: &devices,
            repository,
            reader: live_record::Reader::new(self.monitor),
            unread: &unread,
            monitor: self.monitor,
            errors: AtomicU64::new(0),
        };
        let judge = Judge { old: Side::snapshot(&old, &trees.old), new: Side::live(&devices) };
        let top = self.top(&[&old]);
        let old_incomplete = self.skipped(&self.old, &old).is_some();
        // The closure of a parallel walk must be sendable, which `report` need not be.
        let (sender, receiver) = std::sync::mpsc::sync_channel::<live::Output>(QUEUE);
        let threads = self.options.threads;
        let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let (walked, merged) = std::thread::scope(|scope| {
            let walking = std::thread::Builder::new().spawn_scoped(scope, || {
                walk::walk(&sources, &visitor, threads, move |output| {
                    sender.send(output).map_err(|_| Error::interrupted())
                })
            });
            let merged = (|| -> Result<_> {
                let changes = Changes::new(report, &trees, top, self.options.rename_memory, self.monitor);
                let records = Stream::of(&old, part.as_ref())?;
                let mut merge = Merge::new(records, judge, changes, Some(&unread), None, self.monitor);
                for output in &receiver {
                    for item in &output.items {
                        if self.has(&output.directory, item) {
                            merge.push(&output.directory, item)?;
                        }
                    }
                }
                Ok(merge)
            })();
            // Ends the walk if the merge failed.
            drop(receiver);
            let walked = match walking {
                Ok(walking) => walking.join(),
                Err(cause) => Ok(Err(Error::failed("start a thread").because(cause))),
            };
            (walked, merged)
        });
        let merge = merged?;
        match walked {
            Ok(walked) => walked?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        let (changes, errors) = merge.finish()?;
        let (unseen, read_bytes) = (visitor.errors.load(Ordering::Relaxed), visitor.reader.read_bytes());
        let stats = changes.finish()?;
        let (errors, read_bytes) = (errors + unseen + stats.errors, read_bytes + stats.read_bytes);
        Ok(Stats { new: LIVE.into(), errors, read_bytes, old_incomplete, ..stats })
    }

    /// What a snapshot lacks, if it is incomplete. That is reported.
    fn skipped(&self, name: &str, manifest: &Reader) -> Option<Skipped> {
        let skipped = Skipped::of(self.repository, name, manifest.totals());
        skipped.iter().for_each(|skipped| skipped.report(self.monitor));
        skipped
    }

    /// The part of a snapshot that is compared.
    fn part(&self, manifest: &Reader) -> Result<Option<Part>> {
        Part::find(manifest, self.path.as_deref().unwrap_or_default())
    }

    /// Whether a record of the live tree is compared.
    fn has(&self, directory: &[u8], item: &Item) -> bool {
        self.path.as_ref().is_none_or(|within| match item {
            Item::Directory(_) => is_below(directory, within),
            Item::Entry(entry) => is_below(&join(directory, &entry.name), within),
        })
    }

    /// The sources of the old snapshot, as far as they are compared.
    fn sources(&self, manifest: &Reader) -> Result<Sources> {
        let sources = manifest.header().sources.iter().map(|source| PathBuf::from(OsStr::from_bytes(source)));
        let path = self.path.as_deref().map(walk::absolute);
        let compared: Vec<_> = match &path {
            None => sources.collect(),
            Some(path) => {
                let parts = sources.filter_map(|source| match () {
                    () if path.starts_with(&source) => Some(path.clone()),
                    () if source.starts_with(path) => Some(source),
                    () => None,
                });
                parts.collect()
            }
        };
        if compared.is_empty() {
            let hint = "it is not in a source of that snapshot";
            return Err(self.missing(&format!("the snapshot {}", self.old)).hint(hint));
        }
        Ok(Sources::exact(compared))
    }

    fn top(&self, manifests: &[&Reader]) -> Top {
        match &self.path {
            Some(path) => Top::at(path),
            None => {
                let sources = manifests.iter().flat_map(|manifest| &manifest.header().sources);
                Top::above(sources.map(|source| Path::new(OsStr::from_bytes(source))))
            }
        }
    }

    fn missing(&self, place: &str) -> Error {
        let path = text::path(&walk::absolute(self.path.as_deref().unwrap_or_default()));
        Error::failed(format!("find {path} in {place}")).hint("give an absolute path, as in the sources")
    }
}

/// How many outputs of the walk wait for the merge.
const QUEUE: usize = 64;
