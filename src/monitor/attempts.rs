//! A monitor for work that is begun again, because something was deleted meanwhile.

use super::{Monitor, Reported};
use crate::error::Error;
use crate::util::mutex::{self, lock};
use std::sync::Mutex;

/// A monitor that passes on each problem only in the first attempt that has it.
pub(crate) struct Attempts<'m> {
    inner: &'m dyn Monitor,
    earlier: Reported,
    present: Mutex<Reported>,
}

impl<'m> Attempts<'m> {
    /// The monitor of the first attempt.
    pub(crate) fn new(inner: &'m dyn Monitor) -> Attempts<'m> {
        Attempts { inner, earlier: Reported::default(), present: Mutex::default() }
    }

    /// The monitor of the next attempt.
    pub(crate) fn again(self) -> Attempts<'m> {
        let Attempts { inner, mut earlier, present } = self;
        earlier.extend(mutex::into_inner(present));
        Attempts { inner, earlier, present: Mutex::default() }
    }
}

impl Monitor for Attempts<'_> {
    fn inner(&self) -> Option<&dyn Monitor> {
        Some(self.inner)
    }

    fn problem(&self, error: &Error) {
        if self.earlier.has(error) {
            return;
        }
        lock(&self.present).add(error);
        self.inner.problem(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Recording;

    #[test]
    fn a_problem_of_an_earlier_attempt_is_not_reported_again() {
        let recording = Recording::default();
        let problem = |attempts: &Attempts<'_>, path: &str| attempts.problem(&Error::failed("do").at(path));
        let first = Attempts::new(&recording);
        ["/a", "/a", "/b"].iter().for_each(|path| problem(&first, path));
        let second = first.again();
        ["/b", "/c"].iter().for_each(|path| problem(&second, path));
        let third = second.again();
        ["/a", "/c"].iter().for_each(|path| problem(&third, path));
        let reported = ["/a", "/a", "/b", "/c"].map(|path| format!("cannot do {path}"));
        assert_eq!(*lock(&recording.problems), reported);
    }
}
