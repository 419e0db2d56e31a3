//! Processes a list with several threads. Items start in the order of the list, so reads stay close together on the
//! device.

use crate::util::mutex::{self, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads for small cold reads: these need many pending requests, not cores.
pub(crate) const READERS: usize = 16;

/// Threads that make the kernel compare and share data: more would only wait for each other's locks.
pub(crate) const SHARERS: usize = 4;

/// Runs `work` on each item with this many threads. Returns the results in the order of the items.
pub(crate) fn each<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.into_iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let results: Vec<_> = items.iter().map(|_| Mutex::new(None)).collect();
    let run = || {
        while let (number, true) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            (number, number < items.len())
        } {
            let item = lock(&items[number]).take();
            let result = item.map(&work);
            *lock(&results[number]) = result;
        }
    };
    std::thread::scope(|scope| {
        for number in 1..threads {
            // If no thread can be started, this one does all the work.
            let _ = std::thread::Builder::new().name(format!("worker-{number}")).spawn_scoped(scope, run);
        }
        run();
    });
    results.into_iter().filter_map(mutex::into_inner).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        assert_eq!(super::each(4, items.clone(), |number| number * 2), items.iter().map(|n| n * 2).collect::<Vec<_>>());
        assert_eq!(super::each(4, Vec::<u32>::new(), |number| number), [0; 0]);
    }
}
