//! Entries that the user excludes from a walk: by pattern, by a tag in a directory, by filesystem, by size and by age.
//!
//! The visitors of a walk ask a [`Filter`] which entries of a directory they are to see. It decides by name alone where
//! it can, before anything of an entry is known, so nothing that is excluded is opened, and no excluded directory is
//! listed. What the user named as a source is never excluded.

mod file;
pub(crate) mod mounts;
mod pattern;
mod patterns;
mod tag;

pub use file::read;
pub use pattern::Line;
pub use patterns::Patterns;

use crate::fs::status::{Status, Time};
use crate::monitor::{Event, Monitor};
use crate::tree::walk::{Directory, Names, Sources};
use patterns::Matcher;
use rustix::fs::FileType;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tag::{Tag, Tags};

/// How many patterns that matched nothing are named.
const SHOWN: usize = 5;

/// What is excluded.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Patterns of names and paths.
    pub patterns: Patterns,
    /// What is in directories with a valid `CACHEDIR.TAG`, that file apart.
    pub caches: bool,
    /// What is in directories that have an entry of one of these names, that entry apart.
    pub if_present: Vec<Vec<u8>>,
    /// What is mounted below a source; the subvolumes of one Btrfs are one filesystem.
    pub one_file_system: bool,
    /// Regular files of more than so many bytes.
    pub larger_than: Option<u64>,
    /// Regular files whose content was last changed longer ago than this.
    pub older_than: Option<Duration>,
}

/// How many entries were excluded, by reason. Entries below an excluded directory are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By a pattern.
    pub patterns: u64,
    /// Directories with a tag in them: their content was excluded.
    pub tags: u64,
    /// Mount points of other filesystems: their content was excluded.
    pub filesystems: u64,
    /// Files that are too large.
    pub sizes: u64,
    /// Files that are too old.
    pub ages: u64,
}

impl Counts {
    /// All together.
    pub fn total(&self) -> u64 {
        self.patterns + self.tags + self.filesystems + self.sizes + self.ages
    }
}

/// The exclusions of one walk, for many threads at once.
#[derive(Debug)]
pub struct Filter {
    patterns: Matcher,
    tags: Tags,
    one_file_system: bool,
    larger_than: Option<u64>,
    before: Option<Time>,
    /// What was named itself, and what is read in the place of it.
    sources: Sources,
    counts: Counters,
    /// Something could not be read: then nobody knows what a pattern would have matched.
    is_partial: AtomicBool,
}

#[derive(Debug, Default)]
struct Counters {
    patterns: AtomicU64,
    tags: AtomicU64,
    filesystems: AtomicU64,
    sizes: AtomicU64,
    ages: AtomicU64,
}

impl Filter {
    /// A filter for a walk of these sources that begins now.
    pub fn new(options: &Options, sources: &Sources) -> Filter {
        Filter {
            patterns: Matcher::new(&options.patterns, sources.paths().iter().map(PathBuf::as_path)),
            tags: Tags { caches: options.caches, names: options.if_present.clone() },
            one_file_system: options.one_file_system,
            larger_than: options.larger_than,
            before: options.older_than.map(ago),
            sources: sources.clone(),
            counts: Counters::default(),
            is_partial: AtomicBool::new(false),
        }
    }

    /// Lists a directory that all is wanted of, without what is left out by its name or a tag. As [`Names::list`], what
    /// could be read is kept even if an error cuts it short.
    pub fn list(&self, directory: &Directory<()>) -> (Names, Option<io::Error>) {
        if let Some(tag) = self.tags.of(&directory.fd).filter(|_| !self.is_source(&directory.path)) {
            add(&self.counts.tags);
            return match tag {
                Tag::Kept(name) => Names::of(&directory.fd, [name]),
                Tag::Gone => Names::of(&directory.fd, []),
            };
        }
        if self.patterns.is_empty() {
            return Names::list(&directory.fd, |_, _| true);
        }
        let mut within = self.patterns.within(&directory.path);
        Names::list(&directory.fd, |name, is_directory| {
            let is_out = within.excludes(name, is_directory) && !self.is_source(&directory.join(name));
            if is_out {
                add(&self.counts.patterns);
            }
            !is_out
        })
    }

    /// Whether the subdirectory at `path` (without its leading slash) is not to be entered because another filesystem
    /// is mounted there. Asked before it is opened.
    pub fn stops_at<P>(&self, parent: &Directory<P>, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let stops = self.one_file_system
            && !parent.scaffold
            && match self.sources.stand_in(path) {
                // That is what would be opened, and not what lies at the name in a frozen tree.
                Some(stand_in) => mounts::is_another(&parent.fd, &stand_in),
                None => mounts::is_elsewhere(&parent.fd, parent.status.dev, name),
            }
            && !self.is_source(path);
        if stops {
            add(&self.counts.filesystems);
        }
        stops
    }

    /// Whether an entry of a directory is left out for its status.
    pub fn leaves_out<P>(&self, directory: &Directory<P>, name: &[u8], status: &Status) -> bool {
        if status.file_type() != FileType::RegularFile {
            return false;
        }
        let counter = match (self.larger_than, self.before) {
            (Some(most), _) if status.size > most => &self.counts.sizes,
            (_, Some(before)) if status.mtime < before => &self.counts.ages,
            _ => return false,
        };
        let is_out = !self.is_source(&directory.join(name));
        if is_out {
            add(counter);
        }
        is_out
    }

    /// A part of the tree could not be read.
    pub fn note_unreadable(&self) {
        self.is_partial.store(true, Ordering::Relaxed);
    }

    /// What was left out so far.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { patterns, tags, filesystems, sizes, ages } = &self.counts;
        Counts {
            patterns: get(patterns),
            tags: get(tags),
            filesystems: get(filesystems),
            sizes: get(sizes),
            ages: get(ages),
        }
    }

    /// After the whole walk: reports patterns that matched nothing.
    pub fn report_unmatched(&self, monitor: &dyn Monitor) {
        if self.is_partial.load(Ordering::Relaxed) {
            return;
        }
        let unmatched = self.patterns.unmatched();
        if unmatched.is_empty() {
            return;
        }
        let first = || unmatched.iter().take(SHOWN);
        let patterns: Vec<_> = first().map(|(shown, _)| shown.as_str()).collect();
        let more = unmatched.len() - patterns.len();
        let relative = first().any(|(_, at_source)| *at_source);
        monitor.event(Event::UnmatchedPatterns { patterns: &patterns, more, relative });
    }

    fn is_source(&self, path: &[u8]) -> bool {
        let same = |source: &PathBuf| source.as_os_str().as_bytes().strip_prefix(b"/") == Some(path);
        self.sources.paths().iter().any(same)
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The moment so long ago.
fn ago(duration: Duration) -> Time {
    let now = Time::now();
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Time { seconds: now.seconds.saturating_sub(seconds), ..now }
}
