//! Limits work to a few threads at a time, while the other threads read ahead.

use crate::util::mutex::lock;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

/// A number of turns. A thread waits if all turns are taken.
#[derive(Debug)]
pub(crate) struct Semaphore {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Semaphore {
    /// A semaphore with this many turns.
    pub(crate) fn new(turns: usize) -> Self {
        Semaphore { free: Mutex::new(turns.max(1)), freed: Condvar::new() }
    }

    /// Waits for a turn, then does this work.
    pub(crate) fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let free = lock(&self.free);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let _turn = Turn(self);
        work()
    }
}

/// A turn that is returned when the work ends, however it ends.
struct Turn<'a>(&'a Semaphore);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

/// The number of threads for work that mostly waits for the disk.
pub(crate) fn waiters() -> usize {
    (cores() * 4).clamp(4, 16)
}

/// The number of threads that have their own processor. At least two, because one of them waits now and then.
pub(crate) fn cores() -> usize {
    // This query takes a dozen system calls, because it reads the files of the process's control group.
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
        let (turns, now, most) = (Semaphore::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
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
