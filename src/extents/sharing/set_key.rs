//! Keys of sets of files, updated in one step when a file joins or leaves the set.

use std::hash::{BuildHasher as _, RandomState};

/// The key of a set of files: the sum of their random numbers, so that adding or removing a file takes one step.
///
/// Two sets with the same key would count as one. With 128 bits this does not happen by chance, and nobody can prepare
/// files for it because each run draws new numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SetKey([u64; 2]);

impl SetKey {
    pub(super) fn with(self, file: SetKey) -> SetKey {
        SetKey([self.0[0].wrapping_add(file.0[0]), self.0[1].wrapping_add(file.0[1])])
    }

    pub(super) fn without(self, file: SetKey) -> SetKey {
        SetKey([self.0[0].wrapping_sub(file.0[0]), self.0[1].wrapping_sub(file.0[1])])
    }
}

/// The random numbers of the files.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(RandomState);

impl Keys {
    pub(super) fn of(&self, file: u32) -> SetKey {
        SetKey([self.0.hash_one((file, 0)), self.0.hash_one((file, 1))])
    }
}
