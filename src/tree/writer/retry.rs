//! Retries an entry that another run created or changed meanwhile.

use super::{Attempt, Failure};
use crate::error::Error;

/// How often an entry is tried again.
const TRIES: usize = 3;

/// Repeats an attempt that failed because somebody else created or changed the entry meanwhile: another run may be
/// writing the same tree. `again` receives the error, and must not replace different content.
pub(crate) fn retry<T>(attempt: Attempt<T>, mut again: impl FnMut(Error) -> Attempt<T>) -> Attempt<T> {
    let mut attempt = attempt;
    for _ in 0..TRIES {
        match attempt {
            Err(Failure::Meanwhile(error)) => attempt = again(error),
            attempt => return attempt,
        }
    }
    attempt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_somebody_else_did_is_tried_again_and_not_forever() {
        let error = || Error::failed("make");
        let mut calls = 0;
        assert!(matches!(retry(Ok(1), |_| panic!("it is done")), Ok(1)));
        assert!(matches!(retry::<()>(Err(Failure::Entry(error())), |_| panic!("it failed")), Err(Failure::Entry(_))));
        assert!(matches!(retry(Err(Failure::Meanwhile(error())), |_| Ok(2)), Ok(2)));
        let busy = retry::<()>(Err(Failure::Meanwhile(error())), |error| {
            calls += 1;
            Err(Failure::Meanwhile(error))
        });
        assert!(matches!(busy, Err(Failure::Meanwhile(_))) && calls == TRIES);
    }
}
