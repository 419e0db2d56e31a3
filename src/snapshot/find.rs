//! Finds the paths that match a pattern in all snapshots of a repository.
//!
//! All manifests are read at once, in step, so the paths come in the order of the tree. If they are too many to be held
//! open, the files of the others are opened for each block. Memory: for each manifest one block and the index, about
//! 100 bytes for each 64 KiB of records.

use super::manifest::{Item, Items, Reader, compare_paths};
use super::repository::Repository;
use crate::error::{Error, Result};
use crate::fs::open_files;
use crate::monitor::{Amount, Monitor};
use crate::tree::exclude::{Line, Matcher, Patterns, Within};
use crate::tree::walk::absolute;
use crate::util::path::{join, split};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::path::Path;
use std::time::Instant;

/// Options of [`find`].
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {}

/// A path that matches.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Found<'a> {
    /// The absolute path.
    pub path: &'a Path,
    /// Whether it is a directory. A path that is one in some snapshots only is passed twice.
    pub is_directory: bool,
    /// The oldest snapshot that has it.
    pub first: &'a str,
    /// The newest snapshot that has it.
    pub last: &'a str,
    /// How many snapshots have it.
    pub snapshots: u64,
}

/// The counts.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Paths that match.
    pub paths: u64,
    /// The snapshots that were searched.
    pub snapshots: u64,
    /// Snapshots, or parts of them, that could not be searched; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Passes each path that matches `pattern` to `report`, with the snapshots of the repository at `repo` that have it.
/// The pattern is one of `--exclude`, see [`Patterns`]. The order is that of the tree: a directory, its entries by
/// name, its subdirectories by name.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, find};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter.txt"), "Dear Ann")?;
/// create::create(&[source], &repo, &create::Options::default(), &Silent)?;
///
/// let mut report = |found: &find::Found<'_>| {
///     assert!(found.path.ends_with("letter.txt") && found.snapshots == 1);
///     Ok(())
/// };
/// let stats = find::find(&repo, "*.txt", &find::Options::default(), &Silent, &mut report)?;
/// assert_eq!(stats.paths, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the pattern is invalid, the repository cannot be opened, the run is cancelled, or `report` returns an error. A
/// snapshot that cannot be read is reported to the monitor and counted.
pub fn find(
    repo: &Path,
    pattern: &str,
    _: &Options,
    monitor: &dyn Monitor,
    report: &mut dyn FnMut(&Found<'_>) -> Result<()>,
) -> Result<Stats> {
    let begun = Instant::now();
    let patterns = Patterns::new([Line::from(pattern)])?;
    if pattern.starts_with('!') {
        let error = Error::usage("find a pattern that begins with '!'");
        return Err(error.hint("it matches nothing by itself; for a name with this character use '[!]'"));
    }
    let repository = Repository::open(repo)?;
    let listing = repository.listing()?;
    listing.problems.iter().for_each(|problem| monitor.problem(problem));
    repository.report_strays(monitor)?;
    let mut stats = Stats { errors: listing.problems.len() as u64, ..Stats::default() };
    let expected = listing.snapshots.iter().fold(0, |sum: u64, info| sum.saturating_add(info.totals.entries()));
    monitor.phase("searching", Some(Amount { files: expected, bytes: 0 }));
    let most_open = open_files::part(4, 8..=4096);
    let mut searched: Vec<(String, Reader, Matcher)> = Vec::new();
    for info in listing.snapshots {
        let opened = repository.manifest(&info.name).and_then(|mut manifest| {
            if searched.len() >= most_open {
                manifest.close()?;
            }
            Ok(manifest)
        });
        match opened {
            Ok(manifest) => {
                let matcher = Matcher::new(&patterns, info.sources());
                searched.push((info.name, manifest, matcher));
            }
            Err(error) => {
                stats.errors += 1;
                monitor.problem(&error);
            }
        }
    }
    stats.snapshots = searched.len() as u64;
    let mut streams: Vec<_> =
        searched.iter().map(|(_, manifest, matcher)| Matches::new(manifest.items(), matcher)).collect();
    let mut heap = BinaryHeap::with_capacity(streams.len());
    for (number, stream) in streams.iter_mut().enumerate() {
        heap.extend(stream.next(monitor, &mut stats)?.map(|place| Reverse(Head { place, number })));
    }
    while let Some(Reverse(Head { place, number: first })) = heap.pop() {
        heap.extend(streams[first].next(monitor, &mut stats)?.map(|place| Reverse(Head { place, number: first })));
        let (mut last, mut snapshots) = (first, 1);
        // Of equal places, that of the oldest snapshot comes first.
        while let Some(Reverse(next)) = heap.peek()
            && next.place == place
        {
            last = next.number;
            snapshots += 1;
            heap.pop();
            heap.extend(streams[last].next(monitor, &mut stats)?.map(|place| Reverse(Head { place, number: last })));
        }
        stats.paths += 1;
        let (first, last) = (&searched[first].0, &searched[last].0);
        let is_directory = place.name.is_empty();
        report(&Found { path: &absolute(&place.path()), is_directory, first, last, snapshots })?;
    }
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// The place of an entry in the order of manifests: its directory and its name. A directory has no name there.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    directory: Vec<u8>,
    name: Vec<u8>,
}

impl Place {
    fn path(&self) -> Vec<u8> {
        if self.name.is_empty() { self.directory.clone() } else { join(&self.directory, &self.name) }
    }
}

/// The next match of a snapshot, by its number. Older snapshots have smaller numbers.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    place: Place,
    number: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_paths(&self.place.directory, &other.place.directory)
            .then_with(|| self.place.name.cmp(&other.place.name))
            .then_with(|| self.number.cmp(&other.number))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The matching paths of a snapshot.
struct Matches<'r> {
    items: Items<'r>,
    matcher: &'r Matcher,
    /// The patterns in the present directory.
    within: Within<'r>,
    directory: Vec<u8>,
}

impl<'r> Matches<'r> {
    fn new(items: Items<'r>, matcher: &'r Matcher) -> Self {
        Matches { items, matcher, within: matcher.within(b""), directory: Vec::new() }
    }

    /// The next match. Damage is reported and skipped.
    fn next(&mut self, monitor: &dyn Monitor, stats: &mut Stats) -> Result<Option<Place>> {
        while let Some(item) = self.items.next() {
            if monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            let item = match item {
                Ok(item) => item,
                Err(error) => {
                    stats.errors += 1;
                    monitor.problem(&error);
                    continue;
                }
            };
            monitor.advance(Amount { files: 1, bytes: 0 });
            // Also after damage, when the record of the directory was lost.
            if self.directory != self.items.directory() {
                self.directory = self.items.directory().to_vec();
                self.within = self.matcher.within(&self.directory);
            }
            match item {
                Item::Directory(directory) => {
                    let (above, name) = split(&directory.path);
                    if !name.is_empty() && self.matcher.within(above).matches(name, true) {
                        return Ok(Some(Place { directory: directory.path, name: Vec::new() }));
                    }
                }
                Item::Entry(entry) => {
                    if self.within.matches(&entry.name, false) {
                        return Ok(Some(Place { directory: self.directory.clone(), name: entry.name }));
                    }
                }
            }
        }
        Ok(None)
    }
}
