//! What engines refused, errno by errno: remembered per device of the source, so that it is not asked of each file anew, and
//! counted.

use super::engine::Engine;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};

/// So many files in a row may be refused for what may be their own fault before the engine counts as refused for all.
const PATIENCE: u64 = 8;

/// Why an engine did not copy, and how many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The engine that was asked.
    pub engine: Engine,
    /// What the kernel said.
    pub errno: Errno,
    /// How many times it did. Of those that were not asked any more, nothing is counted.
    pub files: u64,
}

/// What is known of the engines.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    pairs: RwLock<HashMap<(u64, Engine), Pair>>,
}

/// What is known of an engine for sources on one device.
#[derive(Debug, Default)]
struct Pair {
    has_served: bool,
    is_closed: bool,
    refused: BTreeMap<i32, u64>,
}

impl Refusals {
    /// Whether an engine is worth asking.
    pub(super) fn is_open(&self, engine: Engine, dev: u64) -> bool {
        engine == Engine::Buffered || !self.read(engine, dev, |pair| pair.is_closed)
    }

    /// Notes that an engine copied something.
    pub(super) fn served(&self, engine: Engine, dev: u64) {
        if !self.read(engine, dev, |pair| pair.has_served) {
            self.write(engine, dev, |pair| pair.has_served = true);
        }
    }

    /// Notes that an engine refused a file; whether that is said for the first time.
    pub(super) fn refused(&self, engine: Engine, dev: u64, errno: Errno) -> bool {
        self.write(engine, dev, |pair| {
            let files = pair.refused.entry(errno.raw_os_error()).or_default();
            *files += 1;
            let is_first = *files == 1;
            pair.is_closed =
                is_of_the_pair(engine, errno) || (!pair.has_served && pair.refused.values().sum::<u64>() >= PATIENCE);
            is_first
        })
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Refusal> {
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        let mut sums: BTreeMap<(Engine, i32), u64> = BTreeMap::new();
        for ((_, engine), pair) in pairs.iter() {
            for (errno, files) in &pair.refused {
                *sums.entry((*engine, *errno)).or_default() += files;
            }
        }
        let refusal = |((engine, errno), files)| Refusal { engine, errno: Errno::from_raw_os_error(errno), files };
        sums.into_iter().map(refusal).collect()
    }

    /// Whether there may be rings is a matter of the process, not of its files.
    fn key(engine: Engine, dev: u64) -> (u64, Engine) {
        (if engine == Engine::Uring { 0 } else { dev }, engine)
    }

    fn read(&self, engine: Engine, dev: u64, ask: impl Fn(&Pair) -> bool) -> bool {
        self.pairs.read().unwrap_or_else(PoisonError::into_inner).get(&Self::key(engine, dev)).is_some_and(ask)
    }

    fn write<T>(&self, engine: Engine, dev: u64, note: impl FnOnce(&mut Pair) -> T) -> T {
        note(self.pairs.write().unwrap_or_else(PoisonError::into_inner).entry(Self::key(engine, dev)).or_default())
    }
}

/// Whether the next file of the same device would be refused as well.
fn is_of_the_pair(engine: Engine, errno: Errno) -> bool {
    (engine == Engine::Uring && matches!(errno, Errno::PERM | Errno::ACCESS | Errno::NOMEM))
        || matches!(errno, Errno::XDEV | Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::NODEV)
}

/// What a refusal means, in words.
pub(super) fn describe(engine: Engine, errno: Errno) -> String {
    match (engine, errno) {
        (Engine::Uring, Errno::PERM | Errno::ACCESS) => {
            "io_uring is unavailable, forbidden by sysctl kernel.io_uring_disabled or a filter".into()
        }
        (Engine::Uring, Errno::NOSYS) => "io_uring is unavailable, this kernel has none".into(),
        (Engine::Uring, Errno::NOMEM) => "io_uring is unavailable, by the limit of locked memory (`ulimit -l`)".into(),
        (_, Errno::XDEV) => "the files lie on different filesystems".into(),
        (_, Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => "the kernel does not offer it for these files".into(),
        (_, Errno::INVAL) => "the kernel finds it invalid for this pair of files".into(),
        (_, errno) => errno.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pair_of_filesystems_refuses_is_asked_once() {
        let refusals = Refusals::default();
        assert!(refusals.is_open(Engine::CopyFileRange, 1));
        assert!(refusals.refused(Engine::CopyFileRange, 1, Errno::XDEV));
        assert!(!refusals.is_open(Engine::CopyFileRange, 1));
        assert!(refusals.is_open(Engine::CopyFileRange, 2));
        assert!(refusals.is_open(Engine::Splice, 1));
        assert_eq!(refusals.all(), [Refusal { engine: Engine::CopyFileRange, errno: Errno::XDEV, files: 1 }]);
    }

    #[test]
    fn what_one_file_is_refused_for_is_asked_again_unless_none_is_ever_taken() {
        let (never, once) = (Refusals::default(), Refusals::default());
        once.served(Engine::Splice, 1);
        for refusals in [&never, &once] {
            for file in 0..PATIENCE {
                assert!(refusals.is_open(Engine::Splice, 1), "after {file}");
                assert_eq!(refusals.refused(Engine::Splice, 1, Errno::INVAL), file == 0);
            }
        }
        assert!(!never.is_open(Engine::Splice, 1));
        assert!(once.is_open(Engine::Splice, 1));
        assert_eq!(once.all(), [Refusal { engine: Engine::Splice, errno: Errno::INVAL, files: PATIENCE }]);
    }

    #[test]
    fn the_engine_that_works_everywhere_is_never_given_up() {
        let refusals = Refusals::default();
        refusals.refused(Engine::Buffered, 1, Errno::NOSYS);
        assert!(refusals.is_open(Engine::Buffered, 1));
    }
}
