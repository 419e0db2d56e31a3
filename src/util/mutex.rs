//! Mutexes that ignore poisoning. If a thread panics while it holds one, the run ends where threads are joined, not
//! where the next thread locks the mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value in a mutex.
pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
