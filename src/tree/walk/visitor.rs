//! The interface between a walk and its users: a [`Visitor`] gets the directories and entries that a walk finds.

use super::directory::Directory;
use super::names::{Name, Names};
use crate::error::{Error, Result};
use std::io;
use std::ops::ControlFlow;

/// What is done with the directories and entries of a walk. Called from many threads at once.
pub trait Visitor: Sync {
    /// What is kept for a directory until all in it has been begun.
    type Place: Send + Sync;
    /// What a visit yields. The outputs reach the sink in the order of the walk: a directory, its entries by name, its
    /// subdirectories by name.
    type Output: Send;

    /// A directory has been opened. `None` leaves it out.
    fn enter(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<Self::Place>>,
    ) -> Result<Option<(Self::Place, Self::Output)>>;

    /// A directory that all is wanted of is to be listed. What this leaves out is neither looked at nor opened. What
    /// could be read is kept even if an error cuts it short.
    fn list(&self, directory: &Directory<()>) -> (Names, Option<io::Error>) {
        Names::list(&directory.fd, |_, _| true)
    }

    /// A subdirectory is about to be opened. `Break`: it is not to be, and this is kept of it.
    fn approach(&self, _parent: &Directory<Self::Place>, _path: &[u8]) -> Result<ControlFlow<Option<Self::Output>>> {
        Ok(ControlFlow::Continue(()))
    }

    /// Some of its entries that are no directories, in the order of their names.
    fn batch(
        &self,
        directory: &Directory<Self::Place>,
        names: &mut dyn Iterator<Item = Name<'_>>,
    ) -> Result<Self::Output>;

    /// Nothing of a directory is under way: what it holds open is closed, and what takes memory for the length of its
    /// path let go of, until [`Visitor::reopen`].
    fn close(&self, _path: &[u8], _place: &mut Self::Place) {}

    /// A directory that was closed is to be visited again; `path` is its path.
    fn reopen(&self, _path: &[u8], _place: &mut Self::Place) -> rustix::io::Result<()> {
        Ok(())
    }

    /// All its entries have been visited and all its subdirectories entered.
    fn leave(&self, directory: &Directory<Self::Place>) -> Result<()>;

    /// A directory could not be listed to its end, or a source was not found in it.
    fn incomplete(&self, error: Error);

    /// A directory could not be opened. What is known of it may be kept.
    fn unreadable(
        &self,
        parent: Option<&Directory<Self::Place>>,
        path: &[u8],
        error: Error,
    ) -> Result<Option<Self::Output>>;
}
