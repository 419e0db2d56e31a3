//! Panics of the library. Its restore panics where others return an error, so these are errors of the run, and no bugs
//! of pleach: the message of a panic is not shown meanwhile.

use crate::error::Error;
use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Whether a panic would become an error.
pub(crate) fn catches_panics() -> bool {
    GUARDS.load(Ordering::SeqCst) > 0
}

/// The error of a panic. `action` completes the sentence "cannot …".
pub(super) fn error(action: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the library stopped");
    let cause = match errno(text) {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other(super::fault::shortened(text)),
    };
    Error::failed(action).because(cause)
}

/// The number of an error of the system in the text of a panic: `Os { code: 28, kind: … }`.
fn errno(text: &str) -> Option<i32> {
    let rest = text.split_once("Os { code: ")?.1;
    rest.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_error_of_the_system_in_it() {
        let panic = "called `Result::unwrap()` on an `Err` value: CouldNotWriteToBuffer(Os { code: 28, kind: \
                     StorageFull, message: \"No space left on device\" })";
        let error = error("restore", &panic.to_string());
        assert_eq!((error.code(), error.raw_os_error()), ("no-space", Some(28)));
    }
}
