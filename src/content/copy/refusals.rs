//! What engines refused, by errno: counted, and remembered for each source device, so that no engine is tried in vain
//! for every file.

use super::engine::Engine;
use super::engines::{self, Scope};
use crate::monitor::EngineRefusal;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};

/// An engine that refused this many files, and never copied one, is not tried again.
const PATIENCE: u64 = 8;

/// Why an engine did not copy, and how many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The engine that refused.
    pub engine: Engine,
    /// The error from the kernel.
    pub errno: Errno,
    /// How many files it refused. Files for which it was not tried any more are not counted.
    pub files: u64,
}

/// The known facts about the engines.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    pairs: RwLock<HashMap<(u64, Engine), Pair>>,
}

/// The known facts about an engine for sources on one device.
#[derive(Debug, Default)]
struct Pair {
    has_served: bool,
    is_closed: bool,
    refused: BTreeMap<i32, u64>,
}

impl Refusals {
    /// Whether an engine is worth trying.
    pub(super) fn is_open(&self, engine: Engine, dev: u64) -> bool {
        !engines::capabilities(engine).can_refuse || !self.read(engine, dev, |pair| pair.is_closed)
    }

    /// Records that an engine copied data.
    pub(super) fn served(&self, engine: Engine, dev: u64) {
        if !self.read(engine, dev, |pair| pair.has_served) {
            self.write(engine, dev, |pair| pair.has_served = true);
        }
    }

    /// Records that an engine refused a file. Returns whether this error is new.
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

    /// All refusals.
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

    fn key(engine: Engine, dev: u64) -> (u64, Engine) {
        match engines::capabilities(engine).scope {
            Scope::Process => (0, engine),
            Scope::Device => (dev, engine),
        }
    }

    fn read(&self, engine: Engine, dev: u64, ask: impl Fn(&Pair) -> bool) -> bool {
        self.pairs.read().unwrap_or_else(PoisonError::into_inner).get(&Self::key(engine, dev)).is_some_and(ask)
    }

    fn write<T>(&self, engine: Engine, dev: u64, note: impl FnOnce(&mut Pair) -> T) -> T {
        note(self.pairs.write().unwrap_or_else(PoisonError::into_inner).entry(Self::key(engine, dev)).or_default())
    }
}

/// Whether the next file on the same device would be refused too.
fn is_of_the_pair(engine: Engine, errno: Errno) -> bool {
    let is_of_the_process = engines::capabilities(engine).scope == Scope::Process;
    (is_of_the_process && matches!(errno, Errno::PERM | Errno::ACCESS | Errno::NOMEM))
        || matches!(errno, Errno::XDEV | Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::NODEV)
}

/// The meaning of a refusal.
pub(super) fn meaning(engine: Engine, errno: Errno) -> EngineRefusal {
    (engines::capabilities(engine).explain)(errno).unwrap_or(match errno {
        Errno::XDEV => EngineRefusal::OtherFilesystem,
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS => EngineRefusal::Unsupported,
        Errno::INVAL => EngineRefusal::Invalid,
        errno => EngineRefusal::Refused(errno.raw_os_error()),
    })
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
