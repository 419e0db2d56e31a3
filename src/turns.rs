//! Work that only a few threads do at once, in turn, while the others read ahead.

use crate::filesystem::Kind;
use crate::mutex::lock;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

/// So many turns; whoever comes when none is free waits for one.
#[derive(Debug)]
pub(crate) struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Turns {
    /// This many turns.
    pub(crate) fn new(turns: usize) -> Self {
        Turns { free: Mutex::new(turns.max(1)), freed: Condvar::new() }
    }

    /// As many as threads that create and clone files at once serve such a filesystem best.
    ///
    /// Creating files takes locks of the filesystem's trees: on Btrfs more than two threads only wait for each other, on
    /// XFS as many as there are cores go side by side (docs/benchmarks.md).
    pub(crate) fn of_writers(kind: Kind) -> Self {
        Turns::new(if kind == Kind::Btrfs { 2 } else { cores() })
    }

    /// Does this when it is its turn.
    pub(crate) fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let free = lock(&self.free);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let _turn = Turn(self);
        work()
    }
}

/// Given back when it is over, however it ends.
struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

/// How many threads have a processor each: two at least, since one of them waits now and then.
pub(crate) fn cores() -> usize {
    // The answer takes a dozen system calls: files of the process's control group are opened and read for it.
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(2, usize::from).max(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn no_more_work_at_once_than_there_are_turns() {
        let (turns, now, most) = (Turns::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    turns.with(|| {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(2));
                        now.fetch_sub(1, Ordering::SeqCst);
                    });
                });
            }
        });
        assert_eq!(most.into_inner(), 2);
    }
}
