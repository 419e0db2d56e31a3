//! Remedies for errors that depend on the program that uses the library. `output` has the words.

/// A remedy for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// `put`: pipe the new content into it.
    PipeInput,
    /// `put`: give it an empty input to empty a file.
    GiveEmptyInput,
    /// `put`: allow an empty input.
    AllowEmptyInput,
    /// `snapshot`: allow an empty source.
    AllowEmptySource,
    /// `snapshot`: run as root, or do not freeze the sources.
    DoNotFreeze,
    /// Check the path of the repository, and whether its disk is mounted.
    FindRepository,
    /// Name the repository before the snapshot.
    RepositoryFirst,
    /// Name an empty directory for a new repository.
    EmptyDirectory,
    /// `snapshot`: name the repository after the sources.
    NameRepositoryLast,
    /// List the snapshots.
    ListSnapshots,
    /// `restore`: delete entries that the snapshot does not contain.
    DeleteOthers,
    /// `restore`: compare existing files by their content.
    VerifyExisting,
    /// `prune`: give a rule that keeps snapshots.
    GiveRule,
    /// `remove`: unpin the snapshot first.
    Unpin,
    /// `copy`: let it choose the engine.
    AnyEngine,
    /// Find the damage of snapshots.
    VerifySnapshots,
    /// Mount the disk of the destination, or make it.
    MountDestination,
    /// Mount the disk of the repository that receives, or make it.
    InitReceiver,
}
