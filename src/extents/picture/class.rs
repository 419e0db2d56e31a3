//! The classes of ranges that a picture distinguishes, and a range with its class. Types only.

/// The number of groups with their own appearance: those with the most bytes in common. All other groups look alike.
pub(crate) const GROUPS: usize = 24;

/// The class of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// A hole: reads as zeros.
    Hole,
    /// Data that none of the other files holds.
    Data,
    /// Allocated, never written: reads as zeros.
    Unwritten,
    /// Data inside the metadata.
    Inline,
    /// Data without a known address, usually because it is not yet written to disk.
    Unplaced,
    /// Shared by the group with this number, less than [`GROUPS`].
    Group(u8),
    /// Shared by a group without its own appearance.
    OtherGroup,
}

impl Class {
    pub(super) const COUNT: usize = 6 + GROUPS;

    /// All classes.
    pub(crate) fn all() -> impl Iterator<Item = Class> {
        let groups = (0..GROUPS as u8).map(Class::Group);
        let others = [Class::Data, Class::Unwritten, Class::Inline, Class::Unplaced, Class::Hole];
        groups.chain([Class::OtherGroup]).chain(others)
    }

    /// The class of the group with this rank.
    pub(crate) fn of_group(rank: usize) -> Class {
        if rank < GROUPS { Class::Group(rank as u8) } else { Class::OtherGroup }
    }

    pub(super) fn index(self) -> usize {
        match self {
            Class::Hole => 0,
            Class::Data => 1,
            Class::Unwritten => 2,
            Class::Inline => 3,
            Class::Unplaced => 4,
            Class::OtherGroup => 5,
            Class::Group(group) => 6 + usize::from(group).min(GROUPS - 1),
        }
    }
}

/// A range of a file with one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Where it begins in the file.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Its class.
    pub class: Class,
}
