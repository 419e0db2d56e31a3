//! Deletes trees. `trash` empties a directory of pleach's own in parallel, and `in_place` deletes other trees where
//! they are. `guard` protects everything that is mounted in either.

mod entry;
mod fresh_names;
mod guard;
pub(crate) mod in_place;
mod trash;

pub(crate) use entry::allow_all;
pub(crate) use fresh_names::FreshNames;
pub(crate) use guard::{busy, mount_at};
pub(crate) use trash::Stats;
pub(crate) use trash::{Options, directory, empty};

#[cfg(test)]
mod tests;
