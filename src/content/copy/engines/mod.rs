//! The engines, one per file. Each copies ranges of data in order and reports how far it came. An engine does not
//! clone, look for holes or choose the next engine; `content`, `batches` and `data` do.
//!
//! To add an engine:
//! 1. Write a file here with a `DRIVER`: its `copy` function and its `Capabilities`. `job` and `calls` have the parts
//!    that engines share.
//! 2. In `engine.rs` add the variant, its place in `Engine::ALL` and its name. The command line, `pleach probe` and the
//!    tests of the engines take them from there.
//! 3. In this file add the module, its line in `driver`, and its place in `FALLBACK`.
//! 4. In `src/program/cli/copy.rs` add its summary, in `docs/design/engines.md` its row.

mod buffered;
mod calls;
mod clone;
mod copy_file_range;
mod direct;
mod driver;
mod job;
mod mmap;
mod pieces;
mod sendfile;
mod splice;
pub mod uring;

pub(super) use calls::{judge, uninterrupted};
pub(super) use driver::{Capabilities, Scope};
pub(super) use job::{Halt, Job, Progress};

use super::engine::Engine;
use driver::Driver;
use std::ops::Range;

/// The order of fallback: an engine that refuses is replaced by the next one. The last engine works everywhere.
pub(super) const FALLBACK: &[Engine] =
    &[Engine::CopyFileRange, Engine::Uring, Engine::Sendfile, Engine::Splice, Engine::Mmap, LAST_RESORT];

/// The engine that never refuses, and knows which side failed and where the source ends.
pub(super) const LAST_RESORT: Engine = Engine::Buffered;

fn driver(engine: Engine) -> &'static Driver {
    match engine {
        Engine::Clone => &clone::DRIVER,
        Engine::CopyFileRange => &copy_file_range::DRIVER,
        Engine::Uring => &uring::DRIVER,
        Engine::Sendfile => &sendfile::DRIVER,
        Engine::Splice => &splice::DRIVER,
        Engine::Mmap => &mmap::DRIVER,
        Engine::Buffered => &buffered::DRIVER,
    }
}

/// What an engine can do.
pub(super) fn capabilities(engine: Engine) -> &'static Capabilities {
    &driver(engine).capabilities
}

/// Whether an engine shares extents and copies no ranges.
pub(super) fn clones(engine: Engine) -> bool {
    capabilities(engine).clones
}

/// Whether an engine copies groups of small files side by side.
pub(crate) fn takes_groups(engine: Engine) -> bool {
    capabilities(engine).takes_groups
}

/// The engine that replaces one that refused.
pub(super) fn next(engine: Engine) -> Engine {
    let place = FALLBACK.iter().position(|other| *other == engine);
    FALLBACK.get(place.map_or(0, |place| place + 1)).copied().unwrap_or(LAST_RESORT)
}

/// Copies these ranges with an engine.
pub(super) fn run(engine: Engine, job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    (driver(engine).copy)(job, ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_next_one_but_the_one_that_works_everywhere() {
        let mut engine = Engine::Clone;
        let mut met = vec![engine];
        while next(engine) != engine {
            engine = next(engine);
            met.push(engine);
        }
        assert_eq!(engine, LAST_RESORT);
        assert_eq!(met[1..], *FALLBACK);
        assert_eq!(met.len(), Engine::ALL.len());
        assert!(Engine::ALL.iter().all(|engine| met.contains(engine)), "{met:?}");
    }

    #[test]
    fn the_last_engine_never_refuses() {
        assert!(Engine::ALL.into_iter().all(|engine| capabilities(engine).can_refuse == (engine != LAST_RESORT)));
        assert!(capabilities(LAST_RESORT).knows_end);
    }
}
