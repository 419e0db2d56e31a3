//! A case of the benchmark: an engine, the files it copies, and where the copies go. `measure` runs it.

use crate::content::copy::Engine;

/// The number of small files, and the size of each.
pub(super) const SMALL: (u64, usize) = (2000, 4096);

/// The files that are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// One large file.
    Large,
    /// Many small files.
    Small,
}

/// Where the copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Into files on the same filesystem. Their sync is part of the time.
    File,
    /// Into files in memory (memfd_create(2)).
    Memory,
}

/// An engine, the files that it copies, and where the copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) engine: Engine,
    pub(super) source: Source,
    pub(super) target: Target,
}

/// Every engine with each source and each target.
pub(super) fn all() -> impl Iterator<Item = Case> {
    let targets = [Target::File, Target::Memory];
    let places =
        [Source::Large, Source::Small].into_iter().flat_map(move |source| targets.map(|target| (source, target)));
    Engine::ALL
        .into_iter()
        .flat_map(move |engine| places.clone().map(move |(source, target)| Case { engine, source, target }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_copies_both_sources_into_both_targets() {
        assert_eq!(all().count(), Engine::ALL.len() * 4);
        let cases: Vec<_> = all().collect();
        assert!(
            cases.iter().enumerate().all(|(place, case)| cases.iter().position(|other| other == case) == Some(place))
        );
    }
}
