//! What is measured: an engine, the files it copies, and where the copies go. `measure` does it.

use crate::content::copy::Engine;

/// The small files, and the size of each.
pub(super) const SMALL: (u64, usize) = (2000, 4096);

/// What is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// One large file.
    Large,
    /// Many small files.
    Small,
}

/// Into what it is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Into files on the same filesystem, which are then on the disk.
    File,
    /// Into files in memory (memfd_create(2)).
    Memory,
}

/// What is copied by which engine, and into what.
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
