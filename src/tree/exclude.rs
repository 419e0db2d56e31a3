//! Entries that the user excludes from a walk: by pattern, by a tag in a directory, by filesystem, by size and by age.
//!
//! The visitors of a walk ask a `Filter` which entries of a directory they will see. If possible, it decides by name
//! alone, before it reads anything about an entry. So no excluded entry is opened, and no excluded directory is listed.
//! A path that the user named as a source is never excluded.

mod file;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
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
pub(crate) use patterns::{Matcher, Within};
use rustix::fs::FileType;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
pub(crate) use tag::CACHE as CACHE_TAG;
use tag::{Tag, Tags};

/// How many unmatched patterns are reported by name.
const SHOWN: usize = 5;

/// The exclusions that the user chose.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Patterns of names and paths.
    pub patterns: Patterns,
    /// The content of directories with a valid `CACHEDIR.TAG`, except that file.
    pub caches: bool,
    /// The content of directories that have an entry with one of these names, except that entry, unless it is a
    /// directory.
    pub if_present: Vec<Vec<u8>>,
    /// Filesystems mounted below a source. All subvolumes of one Btrfs count as one filesystem.
    pub one_file_system: bool,
    /// Regular files larger than this many bytes.
    pub larger_than: Option<u64>,
    /// Regular files with a last content change longer ago than this.
    pub older_than: Option<Duration>,
}

impl Options {
    /// A text that differs if other entries are excluded.
    pub(crate) fn description(&self) -> String {
        let Options { patterns, caches, if_present, one_file_system, larger_than, older_than } = self;
        let patterns = patterns.lines().collect::<Vec<_>>();
        format!("{patterns:?} {caches} {if_present:?} {one_file_system} {larger_than:?} {older_than:?}")
    }
}

/// How many entries were excluded, by reason. Entries below an excluded directory are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// By a pattern.
    pub patterns: u64,
    /// Directories with a tag: their content was excluded.
    pub tags: u64,
    /// Mount points of other filesystems: their content was excluded.
    pub filesystems: u64,
    /// Files that are too large.
    pub sizes: u64,
    /// Files that are too old.
    pub ages: u64,
}

impl Counts {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.patterns + self.tags + self.filesystems + self.sizes + self.ages
    }
}

/// The exclusions of one walk, shared by many threads.
#[derive(Debug)]
pub(crate) struct Filter {
    patterns: Matcher,
    tags: Tags,
    one_file_system: bool,
    larger_than: Option<u64>,
    before: Option<Time>,
    /// The sources that the user named, and the directories that are read in their place.
    sources: Sources,
    counts: Counters,
    /// Something could not be read, so nobody knows which patterns would have matched.
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
    /// A filter for a walk of these sources that starts now.
    pub(crate) fn new(options: &Options, sources: &Sources) -> Filter {
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

    /// Lists a directory that is wanted completely, without entries that are excluded by name or by a tag. Like
    /// [`Names::list`], it returns the names read so far even if an error ends the listing early.
    pub(crate) fn list(&self, directory: &Directory<()>) -> (Names, Option<io::Error>) {
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

    /// Those of these names in a directory that exist and are not excluded by name or by a tag.
    pub(crate) fn among<'n>(&self, directory: &Directory<()>, names: impl IntoIterator<Item = &'n [u8]>) -> Names {
        let tag = self.tags.of(&directory.fd).filter(|_| !self.is_source(&directory.path));
        let mut within = self.patterns.within(&directory.path);
        Names::among(&directory.fd, names, |name, is_directory| match &tag {
            Some(Tag::Kept(tag)) => name == *tag,
            Some(Tag::Gone) => false,
            None => !within.excludes(name, is_directory) || self.is_source(&directory.join(name)),
        })
    }

    /// Whether not to enter the subdirectory at `path` (without its leading slash) because another filesystem is
    /// mounted there. Called before the subdirectory is opened.
    pub(crate) fn stops_at<P>(&self, parent: &Directory<P>, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let stops = self.one_file_system
            && !parent.scaffold
            && match self.sources.stand_in(path) {
                // This directory would be opened, not the entry with this name in a frozen tree.
                Some(stand_in) => mounts::is_another(&parent.fd, &stand_in),
                None => mounts::is_elsewhere(&parent.fd, parent.status.dev, name),
            }
            && !self.is_source(path);
        if stops {
            add(&self.counts.filesystems);
        }
        stops
    }

    /// Whether an entry of a directory is excluded by its status.
    pub(crate) fn leaves_out<P>(&self, directory: &Directory<P>, name: &[u8], status: &Status) -> bool {
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

    /// Records that part of the tree could not be read.
    pub(crate) fn note_unreadable(&self) {
        self.is_partial.store(true, Ordering::Relaxed);
    }

    /// The number of entries excluded so far.
    pub(crate) fn counts(&self) -> Counts {
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

    /// Reports patterns that matched nothing. Called after the whole walk.
    pub(crate) fn report_unmatched(&self, monitor: &dyn Monitor) {
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
        // The walk does not match the sources against patterns.
        for source in self.sources.paths() {
            if let (Some(above), Some(name)) = (source.parent(), source.file_name()) {
                let above = above.as_os_str().as_bytes().strip_prefix(b"/").unwrap_or_default();
                self.patterns.within(above).excludes(name.as_bytes(), source.is_dir());
            }
        }
        let others = self.patterns.unmatched();
        let source = first().any(|pattern| !others.contains(pattern));
        let relative = first().any(|pattern| pattern.1 && others.contains(pattern));
        monitor.event(Event::UnmatchedPatterns { patterns: &patterns, more, relative, source });
    }

    fn is_source(&self, path: &[u8]) -> bool {
        let same = |source: &PathBuf| source.as_os_str().as_bytes().strip_prefix(b"/") == Some(path);
        self.sources.paths().iter().any(same)
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The time that long ago.
fn ago(duration: Duration) -> Time {
    let now = Time::now();
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Time { seconds: now.seconds.saturating_sub(seconds), ..now }
}
