//! Whether the cache still describes the filesystem. A filesystem that was set back to an older image, or copied from
//! it, has the inodes, sizes and times that the cache knows, but lacks the sharing since then: nothing would ever be
//! shared there again.
//!
//! Nobody can set a filesystem back while it is mounted. So once for each mount, a sample of the files that the cache
//! knows is examined: files that the last run moved, and others that share all their data.

use super::cache::Cache;
use super::candidates::Candidates;
use super::catalogue::FileId;
use super::run::Run;
use crate::extents::map::Map;

/// The number of files of each kind that are examined on each filesystem.
const WITNESSES: usize = 64;

/// Discards the cache if a filesystem contradicts it. Returns whether it did.
pub(super) fn check(run: &Run<'_>, candidates: &Candidates, cache: &mut Cache) -> bool {
    let volumes = run.catalogue.volumes();
    let mut wanted: Vec<_> =
        volumes.iter().map(|volume| (!cache.knows_session(volume)).then(Witnesses::default)).collect();
    if wanted.iter().all(Option::is_none) {
        return false;
    }
    for class in candidates.classes() {
        for file in candidates.files(class) {
            if let Some(Some(witnesses)) = wanted.get_mut(usize::from(run.catalogue.volume_number(*file)))
                && let Some(facts) = cache.known(run.catalogue, *file)
            {
                match (facts.moved, facts.shared) {
                    (true, _) => witnesses.moved.add((*file, facts.layout)),
                    (false, true) => witnesses.shared.add((*file, facts.layout)),
                    (false, false) => {}
                }
            }
        }
    }
    let is_contradicted = |sample: &Sample| {
        let answers: Vec<_> = sample.chosen.iter().filter_map(|(file, layout)| is_there(run, *file, *layout)).collect();
        let wrong = answers.iter().filter(|is_there| !**is_there).count();
        // A few may have been moved by a defragmentation.
        wrong > 0 && 2 * wrong >= answers.len()
    };
    let is_set_back =
        wanted.iter().flatten().any(|volume| is_contradicted(&volume.moved) || is_contradicted(&volume.shared));
    if is_set_back {
        cache.distrust();
    }
    is_set_back
}

/// Whether a file lies where the cache says; `None` if that cannot be determined.
fn is_there(run: &Run<'_>, file: FileId, layout: u64) -> Option<bool> {
    let opened = run.opener.open(file).ok()?;
    let key = Map::of(&opened, run.space(file), true).ok()?.key()?;
    Some(key == layout)
}

#[derive(Default)]
struct Witnesses {
    moved: Sample,
    shared: Sample,
}

/// A sample of many files, spread evenly over all of them.
#[derive(Default)]
struct Sample {
    chosen: Vec<(FileId, u64)>,
    /// One file in so many is chosen, as a power of two.
    step: u32,
    seen: u64,
}

impl Sample {
    fn add(&mut self, file: (FileId, u64)) {
        if self.seen.trailing_zeros() >= self.step || self.seen == 0 {
            if self.chosen.len() == WITNESSES {
                let mut number = 0;
                self.chosen.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.step += 1;
            }
            if self.seen.trailing_zeros() >= self.step || self.seen == 0 {
                self.chosen.push(file);
            }
        }
        self.seen += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_all_files() {
        for many in [1, 63, 64, 65, 1000, 100_000] {
            let mut sample = Sample::default();
            (0..many).for_each(|number| sample.add((FileId(number), 0)));
            let chosen: Vec<_> = sample.chosen.iter().map(|(file, _)| file.0).collect();
            assert!(chosen.len() <= WITNESSES && chosen.len() * 2 >= WITNESSES.min(many as usize), "{many}");
            let gaps = chosen.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.clone().all(|gap| gap == 1 << sample.step), "{many}: {chosen:?}");
        }
    }
}
