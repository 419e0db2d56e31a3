//! The interface between a walk and its users: a [`Visitor`] receives the directories and entries that a walk finds.

use super::directory::Directory;
use super::names::{Name, Names};
use crate::error::{Error, Result};
use std::io;
use std::ops::ControlFlow;

/// Handles the directories and entries of a walk. Many threads call it at once.
pub(crate) trait Visitor: Sync {
    /// Data kept for a directory until everything in it was started.
    type Place: Send + Sync;
    /// The result of a visit. The outputs reach the sink in the order of the walk: a directory, its entries by name,
    /// its subdirectories by name.
    type Output: Send;

    /// A directory was opened. `None` skips it.
    fn enter(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<Self::Place>>,
    ) -> Result<Option<(Self::Place, Self::Output)>>;

    /// Lists a directory that is wanted completely. `place` is its place. Names that this does not return are neither
    /// examined nor opened. The names read so far are returned even if an error ends the listing early.
    fn list(&self, directory: &Directory<()>, _place: &Self::Place) -> (Names, Option<io::Error>) {
        Names::list(&directory.fd, |_, _| true)
    }

    /// A subdirectory will be opened. `Break` prevents this, and its value is the output for the subdirectory.
    fn approach(&self, _parent: &Directory<Self::Place>, _path: &[u8]) -> Result<ControlFlow<Option<Self::Output>>> {
        Ok(ControlFlow::Continue(()))
    }

    /// Visits some of its entries that are not directories, in the order of their names.
    fn batch(
        &self,
        directory: &Directory<Self::Place>,
        names: &mut dyn Iterator<Item = Name<'_>>,
    ) -> Result<Self::Output>;

    /// No task of a directory is running. Closes its open files and frees memory that grows with the length of its
    /// path, until [`Visitor::reopen`].
    fn close(&self, _path: &[u8], _place: &mut Self::Place) {}

    /// A directory that was closed will be visited again. `path` is its path.
    fn reopen(&self, _path: &[u8], _place: &mut Self::Place) -> rustix::io::Result<()> {
        Ok(())
    }

    /// All entries of a directory were visited, and all its subdirectories were entered.
    fn leave(&self, directory: &Directory<Self::Place>) -> Result<()>;

    /// A directory could not be listed completely.
    fn incomplete(&self, error: Error);

    /// A source was not found, so nothing of it was read.
    fn unfound(&self, error: Error) -> Result<()> {
        self.incomplete(error);
        Ok(())
    }

    /// A source vanished, or a directory was replaced by another one, while it was read: something is missing. This is
    /// known after all outputs (`meanwhile`).
    fn torn(&self, error: Error) -> Result<()> {
        self.incomplete(error);
        Ok(())
    }

    /// A directory was deleted or moved after its parent was listed, or before it was listed itself. This is no
    /// failure.
    fn gone(&self) {}

    /// A directory could not be opened, although it was found. Returns an output for the known facts, if any.
    fn unreadable(
        &self,
        parent: Option<&Directory<Self::Place>>,
        path: &[u8],
        error: Error,
    ) -> Result<Option<Self::Output>>;
}
