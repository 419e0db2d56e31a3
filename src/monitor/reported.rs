//! Problems that were reported before.

use crate::error::Error;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

/// How many problems are recognized. Further ones count as new each time.
const RECOGNIZED: usize = 100_000;

/// Problems that were reported before.
#[derive(Debug, Default)]
pub(crate) struct Reported(HashSet<u64>);

impl Reported {
    /// Whether it has a problem with this code and these words.
    pub(crate) fn has(&self, error: &Error) -> bool {
        self.0.contains(&hash(error))
    }

    /// Adds a problem. Returns whether it is new.
    pub(crate) fn add(&mut self, error: &Error) -> bool {
        let hash = hash(error);
        if self.0.len() < RECOGNIZED { self.0.insert(hash) } else { !self.0.contains(&hash) }
    }

    /// Adds all problems of another list.
    pub(crate) fn extend(&mut self, other: Reported) {
        self.0.extend(other.0);
    }
}

fn hash(error: &Error) -> u64 {
    let mut hasher = DefaultHasher::new();
    (error.code(), error.to_string()).hash(&mut hasher);
    hasher.finish()
}
