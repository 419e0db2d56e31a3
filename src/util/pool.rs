//! Thread pools, and work on lists by the threads of the calling pool.
//!
//! Outside of a pool, rayon's parallel iterators start its global pool. That panics if its threads cannot be started,
//! and ignores how many the user wants. So only this module uses rayon, as `cargo xtask tidy` checks. Outside of a
//! pool, its functions work on the calling thread alone.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::io;

/// A pool of threads. They end with it.
#[derive(Debug)]
pub(crate) struct Pool(ThreadPool);

impl Pool {
    /// Starts this many threads. 0: one for each processor.
    pub(crate) fn start(threads: usize) -> io::Result<Pool> {
        Self::build(ThreadPoolBuilder::new().num_threads(threads))
    }

    /// The same, with this beginning of their names.
    pub(crate) fn start_named(threads: usize, name: &'static str) -> io::Result<Pool> {
        Self::build(ThreadPoolBuilder::new().num_threads(threads).thread_name(move |number| format!("{name}-{number}")))
    }

    /// The same; each thread begins with this work, and gets its number.
    pub(crate) fn start_with(threads: usize, begin: fn(usize)) -> io::Result<Pool> {
        Self::build(ThreadPoolBuilder::new().num_threads(threads).start_handler(begin))
    }

    fn build(builder: ThreadPoolBuilder) -> io::Result<Pool> {
        builder.build().map(Pool).map_err(io::Error::other)
    }

    /// Works on a thread of the pool, and waits for the end.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.0.install(work)
    }

    /// Works on every thread of the pool at once, and waits for the end.
    pub(crate) fn on_each(&self, work: impl Fn() + Sync) {
        self.0.broadcast(|_| work());
    }
}

/// Starts the global pool, for a library that uses it.
///
/// # Errors
/// If the threads cannot be started. Without this call the library would panic then.
#[cfg(feature = "offsite")]
pub(crate) fn start_global() -> io::Result<()> {
    ThreadPoolBuilder::new().build_global().map_err(io::Error::other)
}

/// The number of threads of the calling pool; outside of a pool 1.
pub(crate) fn threads() -> usize {
    if is_in_pool() { rayon::current_num_threads() } else { 1 }
}

/// The results for all items, in their order.
pub(crate) fn map<I, T, R>(items: I, work: impl Fn(T) -> R + Send + Sync) -> Vec<R>
where
    I: IntoIterator<Item = T> + IntoParallelIterator<Item = T>,
    <I as IntoParallelIterator>::Iter: IndexedParallelIterator<Item = T>,
    T: Send,
    R: Send,
{
    map_in_parts(items, usize::MAX, work)
}

/// The same. A thread takes at most `longest` neighbours at once.
pub(crate) fn map_in_parts<I, T, R>(items: I, longest: usize, work: impl Fn(T) -> R + Send + Sync) -> Vec<R>
where
    I: IntoIterator<Item = T> + IntoParallelIterator<Item = T>,
    <I as IntoParallelIterator>::Iter: IndexedParallelIterator<Item = T>,
    T: Send,
    R: Send,
{
    match is_in_pool() {
        true => items.into_par_iter().with_max_len(longest).map(work).collect(),
        false => items.into_iter().map(work).collect(),
    }
}

/// The results for all items, in their order, or an error. After an error, not all items are worked on.
pub(crate) fn try_map<I, T, R, E>(items: I, work: impl Fn(T) -> Result<R, E> + Send + Sync) -> Result<Vec<R>, E>
where
    I: IntoIterator<Item = T> + IntoParallelIterator<Item = T>,
    T: Send,
    R: Send,
    E: Send,
{
    match is_in_pool() {
        true => items.into_par_iter().map(work).collect(),
        false => items.into_iter().map(work).collect(),
    }
}

/// Sorts items. Equal ones get no particular order.
pub(crate) fn sort_unstable<T: Ord + Send>(items: &mut [T]) {
    match is_in_pool() {
        true => items.par_sort_unstable(),
        false => items.sort_unstable(),
    }
}

fn is_in_pool() -> bool {
    rayon::current_thread_index().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread::{self, ThreadId};

    /// The doubles of sorted numbers, an error, and the threads that worked.
    fn work() -> (Vec<u32>, Result<Vec<u32>, u32>, HashSet<ThreadId>) {
        let mut numbers: Vec<u32> = (0..1000).rev().collect();
        sort_unstable(&mut numbers);
        let doubles = map(&numbers, |number| number * 2);
        let failed = try_map(&numbers, |number| if *number == 500 { Err(*number) } else { Ok(*number) });
        let threads = map_in_parts(vec![(); 64], 1, |()| thread::current().id());
        (doubles, failed, threads.into_iter().collect())
    }

    #[test]
    fn outside_of_a_pool_the_calling_thread_does_everything() {
        let (doubles, failed, by) = work();
        assert_eq!((doubles[1], doubles[999], failed), (2, 1998, Err(500)));
        assert_eq!((by, threads()), (HashSet::from([thread::current().id()]), 1));
    }

    #[test]
    fn in_a_pool_its_threads_do_everything() {
        let pool = Pool::start(2).unwrap();
        let (doubles, failed, by) = pool.install(work);
        assert_eq!((doubles[1], doubles[999], failed), (2, 1998, Err(500)));
        assert!(!by.contains(&thread::current().id()) && by.len() <= 2);
        assert_eq!(pool.install(threads), 2);
        let both = Barrier::new(2);
        pool.on_each(|| {
            both.wait();
        });
    }

    #[test]
    fn threads_have_names_and_begin_with_their_work() {
        let named = Pool::start_named(1, "name").unwrap();
        assert_eq!(named.install(|| thread::current().name().map(String::from)).as_deref(), Some("name-0"));
        Pool::start_with(1, |number| assert_eq!(number, 0)).unwrap().install(|| ());
    }
}
