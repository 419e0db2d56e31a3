//! What a user can do about an error, where that depends on the program in front of the library: `output` has the
//! words.

/// What to do about an error.
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
    /// Take a snapshot first: that makes the repository.
    TakeSnapshot,
    /// List the snapshots.
    ListSnapshots,
    /// `restore`: delete what the snapshot does not have.
    DeleteOthers,
    /// `copy`: let it choose the engine.
    AnyEngine,
}
