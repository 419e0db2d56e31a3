//! Panics of the library. Its restore panics where others return an error, so these are errors of the run, and no bugs
//! of pleach: the message of a panic is not shown meanwhile.

use crate::error::Error;
use crate::util::panic::{errno, text};
use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static GUARDS: AtomicUsize = AtomicUsize::new(0);

/// The library works, and its panics are caught.
pub(super) struct Guard(());

impl Guard {
    pub(super) fn new() -> Guard {
        GUARDS.fetch_add(1, Ordering::SeqCst);
        Guard(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        GUARDS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether a panic becomes an error, or comes after one.
pub(crate) fn catches(panic: &PanicHookInfo<'_>) -> bool {
    GUARDS.load(Ordering::SeqCst) > 0 || is_left_behind(panic)
}

/// Whether a thread of the library panics because nobody takes its results any more. The library ends at an error, and
/// leaves its threads behind.
fn is_left_behind(panic: &PanicHookInfo<'_>) -> bool {
    let is_library = panic.location().is_some_and(|location| location.file().contains("rustic_core"));
    is_library
        && text(panic.payload()).is_some_and(|text| text.contains("SendError"))
        && thread::current().name().is_none()
}

/// How often work of the library is repeated that its own threads hindered.
const TRIES: usize = 10;

/// Does work of the library that changes nothing, and repeats it if it panicked because threads of the library still
/// used the index. It gives them 100 ms to end, and on a busy machine they may need longer.
pub(super) fn despite_own_threads<T>(work: impl Fn() -> T) -> T {
    for _ in 1..TRIES {
        match panic::catch_unwind(AssertUnwindSafe(&work)) {
            Ok(result) => return result,
            Err(panic) if text(&*panic).is_some_and(|text| text.starts_with("index still in use")) => {}
            Err(panic) => panic::resume_unwind(panic),
        }
    }
    work()
}

/// The error of a panic. `action` completes the sentence "cannot …".
pub(super) fn error(action: &str, panic: &(dyn Any + Send)) -> Error {
    let text = text(panic).unwrap_or("the library stopped");
    let cause = match errno(text) {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other(super::fault::shortened(text)),
    };
    Error::failed(action).because(cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_panic_becomes_the_error_of_the_system_in_it() {
        let panic = "called `Result::unwrap()` on an `Err` value: CouldNotWriteToBuffer(Os { code: 28, kind: \
                     StorageFull, message: \"No space left on device\" })";
        let error = error("restore", &panic.to_string());
        assert_eq!((error.code(), error.raw_os_error()), ("no-space", Some(28)));
    }

    #[test]
    fn only_work_that_threads_of_the_library_hindered_is_repeated() {
        let tries = Cell::new(0);
        let hindered = |times: usize| {
            tries.set(0);
            panic::catch_unwind(AssertUnwindSafe(|| {
                despite_own_threads(|| {
                    tries.set(tries.get() + 1);
                    assert!(tries.get() > times, "index still in use: Index({{}})");
                })
            }))
        };
        assert!(hindered(TRIES - 1).is_ok() && tries.get() == TRIES);
        assert!(hindered(TRIES).is_err() && tries.get() == TRIES);
        tries.set(0);
        let other = panic::catch_unwind(AssertUnwindSafe(|| {
            despite_own_threads(|| {
                tries.set(tries.get() + 1);
                panic!("something else");
            })
        }));
        assert!(other.is_err() && tries.get() == 1);
    }
}
