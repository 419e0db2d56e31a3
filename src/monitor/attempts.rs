//! A monitor for work that is begun again, because something was deleted meanwhile.

use super::{Amount, Event, Monitor};
use crate::error::Error;
use crate::util::mutex::{self, lock};
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Mutex;

/// How many problems are recognized. Further ones are reported by each attempt.
const RECOGNIZED: usize = 100_000;

/// A monitor that passes on each problem only in the first attempt that has it.
pub(crate) struct Attempts<'m> {
    inner: &'m dyn Monitor,
    earlier: HashSet<u64>,
    present: Mutex<HashSet<u64>>,
}

impl<'m> Attempts<'m> {
    /// The monitor of the first attempt.
    pub(crate) fn new(inner: &'m dyn Monitor) -> Attempts<'m> {
        Attempts { inner, earlier: HashSet::new(), present: Mutex::default() }
    }

    /// The monitor of the next attempt.
    pub(crate) fn again(self) -> Attempts<'m> {
        let Attempts { inner, mut earlier, present } = self;
        earlier.extend(mutex::into_inner(present));
        Attempts { inner, earlier, present: Mutex::default() }
    }
}

impl Monitor for Attempts<'_> {
    fn phase(&self, name: &str, expected: Option<Amount>) {
        self.inner.phase(name, expected);
    }

    fn advance(&self, done: Amount) {
        self.inner.advance(done);
    }

    fn problem(&self, error: &Error) {
        let mut hasher = DefaultHasher::new();
        (error.code(), error.to_string()).hash(&mut hasher);
        let hash = hasher.finish();
        if self.earlier.contains(&hash) {
            return;
        }
        {
            let mut present = lock(&self.present);
            if present.len() < RECOGNIZED {
                present.insert(hash);
            }
        }
        self.inner.problem(error);
    }

    fn event(&self, event: Event<'_>) {
        self.inner.event(event);
    }

    fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled()
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
