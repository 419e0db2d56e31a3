//! Deletes trees. `trash` empties a directory of pleach's own in parallel, and `in_place` deletes other trees where
//! they are. `guard` protects everything that is mounted in either.

mod directory;
mod entry;
mod fresh_names;
mod guard;
pub(crate) mod in_place;
mod lanes;
mod options;
mod run;
mod trash;

pub(crate) use entry::allow_all;
pub(crate) use fresh_names::FreshNames;
pub(crate) use guard::{busy, mount_at};
pub(crate) use options::{Options, Stats};
pub(crate) use trash::{directory, empty};

#[cfg(test)]
mod tests;
