//! Groups problems of one kind. The first few are shown one by one, the rest as one line with their number. A failing
//! disk or a directory without permissions causes thousands of similar messages, which would hide all others.

use crate::error::Error;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of problems of a kind that are shown one by one.
const SHOWN: u64 = 5;
/// The number of kinds that are distinguished; further kinds are counted together.
const KINDS: usize = 1000;

/// The problems of a run, counted by kind. Shared by threads.
#[derive(Default)]
pub(super) struct Problems {
    counts: Mutex<HashMap<String, u64>>,
}

impl Problems {
    /// Counts a problem; returns whether it is among the first of its kind.
    pub(super) fn admit(&self, error: &Error) -> bool {
        let mut counts = self.counts();
        let class = error.class();
        let class = if counts.len() < KINDS || counts.contains_key(&class) { class } else { String::new() };
        let count = counts.entry(class).or_default();
        *count += 1;
        *count <= SHOWN
    }

    /// A line for each kind that has hidden problems. The counts start again at 0.
    pub(super) fn rest(&self) -> Vec<String> {
        let counts = std::mem::take(&mut *self.counts());
        let mut rest: Vec<_> = counts.into_iter().filter(|(_, count)| *count > SHOWN).collect();
        rest.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
        rest.into_iter().map(|(class, count)| line(&class, count - SHOWN)).collect()
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line(class: &str, more: u64) -> String {
    let class = if class.is_empty() { "problems of several kinds" } else { class };
    format!("{} more like this: {class} (show all with -v)", crate::util::text::count(more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn the_first_problems_of_a_kind_are_shown_and_the_rest_is_counted() {
        let problems = Problems::default();
        let error = |path: &str, errno| Error::io("open", path, io::Error::from_raw_os_error(errno));
        let shown = (0..10_000).filter(|n| problems.admit(&error(&format!("/{n}"), libc::EACCES))).count();
        assert_eq!(shown, 5);
        assert!(problems.admit(&error("/a", libc::EIO)), "another kind");
        assert_eq!(problems.rest(), ["9,995 more like this: cannot open: Permission denied (show all with -v)"]);
        assert!(problems.rest().is_empty() && problems.admit(&error("/b", libc::EACCES)), "the counts start again");
    }
}
