//! Decides what to do with one entry, given the wanted and the existing entry. This is a pure function: the run reads
//! and compares ([`Compare`]), and only as far as necessary for the answer.

use super::{Rights, Version};
use crate::fs::metadata::Creator;
use crate::fs::status::Status;
use crate::monitor::Change;
use rustix::fs::FileType;
use rustix::io::Result;

/// What to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing exists: create it.
    Make,
    /// Replace the existing entry, which is not a directory, because of this difference.
    Replace(Change),
    /// Delete the existing directory, then create the entry.
    Clear,
    /// The content is right, but the metadata differs.
    Metadata,
    /// Everything is right, or must be kept.
    Leave,
    /// The content is right. The metadata differs, but replacing the inode for that would lose attributes.
    Keep,
    /// A directory is in its place, and it must not be deleted.
    Blocked,
}

impl Decision {
    /// The version that has the entry's name and may be replaced. A directory is deleted before.
    pub(crate) fn replaces(self, existing: Option<&Status>) -> Option<Version> {
        match self {
            Decision::Replace(_) => existing.map(Version::of),
            _ => None,
        }
    }

    /// The change that a dry run shows.
    pub(crate) fn change(self) -> Option<Change> {
        match self {
            Decision::Make => Some(Change::Added),
            Decision::Replace(change) => Some(change),
            Decision::Clear => Some(Change::Type),
            Decision::Metadata => Some(Change::Metadata),
            Decision::Leave | Decision::Keep | Decision::Blocked => None,
        }
    }
}

/// An entry that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedEntry {
    /// Its type, owner and permissions, and how many names its inode has.
    pub(crate) rights: Rights,
    /// Whether to delete a directory in its place.
    pub(crate) clears_directory: bool,
}

/// How the metadata of an existing entry compares with the wanted metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metadata {
    /// Equal, as far as this process can change it.
    Same,
    /// Different.
    Differs,
    /// Different, and only a new inode can have the wanted metadata.
    NeedsNewInode,
}

/// Compares an existing entry of the right type with the wanted entry.
pub(crate) trait Compare {
    /// Whether it has the wanted content.
    fn has_same_content(&mut self, existing: &Status) -> Result<bool>;

    /// Compares the metadata.
    fn metadata(&mut self, existing: &Status) -> Result<Metadata>;

    /// How this process creates entries.
    fn creator(&self) -> &Creator;

    /// Whether the filesystem shows who owns an inode.
    fn keeps_owners(&self) -> bool;

    /// Whether the wanted metadata has capabilities that the existing entry does not have exactly like this.
    fn adds_capabilities(&mut self) -> Result<bool>;

    /// Whether attributes would be lost if its inode were replaced although the content is right.
    fn would_lose_attributes(&mut self) -> bool {
        false
    }
}

/// Decides what to do with an entry.
///
/// # Errors
/// Errors of the comparison.
pub(crate) fn decide(wanted: WantedEntry, existing: Option<&Status>, compare: &mut impl Compare) -> Result<Decision> {
    let Some(existing) = existing else { return Ok(Decision::Make) };
    if existing.file_type() == FileType::Directory {
        return Ok(if wanted.clears_directory { Decision::Clear } else { Decision::Blocked });
    }
    if existing.file_type() != wanted.rights.file_type() {
        return Ok(Decision::Replace(Change::Type));
    }
    if !compare.has_same_content(existing)? {
        return Ok(Decision::Replace(Change::Content));
    }
    // Metadata written to an inode applies to all its names. These may be the wanted names, but no others.
    let has_other_names = existing.nlink > wanted.rights.nlink.max(1);
    let metadata = compare.metadata(existing)?;
    if metadata == Metadata::Same {
        return Ok(Decision::Leave);
    }
    if wanted.rights.is_foreign(existing, compare.creator()) && compare.keeps_owners() {
        return Ok(Decision::Replace(Change::Metadata));
    }
    let needs_new_inode =
        metadata == Metadata::NeedsNewInode || has_other_names || must_be_new(wanted, existing, compare)?;
    Ok(match needs_new_inode {
        false => Decision::Metadata,
        true if compare.would_lose_attributes() => Decision::Keep,
        true => Decision::Replace(Change::Metadata),
    })
}

/// Whether only a new inode may get the wanted rights.
fn must_be_new(wanted: WantedEntry, existing: &Status, compare: &mut impl Compare) -> Result<bool> {
    let is_file = wanted.rights.file_type() == FileType::RegularFile;
    let is_asked = wanted.rights.need_new_inode(existing, compare.creator())
        || (is_file && compare.creator().is_root() && compare.adds_capabilities()?);
    Ok(is_asked && compare.keeps_owners())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::status::Time;

    /// Gives the answers of a run. `None`: this must not be asked.
    struct Answers {
        content: Option<bool>,
        metadata: Option<Metadata>,
        loses: bool,
        capabilities: bool,
        creator: Creator,
    }

    impl Compare for Answers {
        fn has_same_content(&mut self, _: &Status) -> Result<bool> {
            Ok(self.content.expect("nothing needs the content"))
        }

        fn metadata(&mut self, _: &Status) -> Result<Metadata> {
            Ok(self.metadata.expect("nothing needs the metadata"))
        }

        fn creator(&self) -> &Creator {
            &self.creator
        }

        fn keeps_owners(&self) -> bool {
            true
        }

        fn adds_capabilities(&mut self) -> Result<bool> {
            Ok(self.capabilities)
        }

        fn would_lose_attributes(&mut self) -> bool {
            self.loses
        }
    }

    /// The wanted rights of a file of this process with this number of names.
    fn rights(nlink: u64) -> Rights {
        Rights::of(&status(0o100_644, nlink))
    }

    fn answers() -> Answers {
        Answers { content: None, metadata: None, loses: false, capabilities: false, creator: Creator::current() }
    }

    fn status(mode: u32, nlink: u64) -> Status {
        let time = Time { seconds: 1, nanos: 0 };
        Status {
            mode,
            size: 1,
            atime: time,
            mtime: time,
            ctime: time,
            btime: None,
            dev: 7,
            ino: 8,
            nlink,
            uid: rustix::process::geteuid().as_raw(),
            ..Status::default()
        }
    }

    #[test]
    fn an_entry_is_compared_only_as_far_as_the_answer_needs() {
        let wanted = WantedEntry { rights: rights(1), clears_directory: false };
        let nothing = || Answers { content: None, metadata: None, ..answers() };
        let decided = |wanted, mode, answers: &mut Answers| decide(wanted, Some(&status(mode, 1)), answers).unwrap();
        assert_eq!(decide(wanted, None, &mut nothing()), Ok(Decision::Make));
        assert_eq!(decided(wanted, 0o040_755, &mut nothing()), Decision::Blocked);
        let clears = WantedEntry { clears_directory: true, ..wanted };
        assert_eq!(decided(clears, 0o040_755, &mut nothing()), Decision::Clear);
        assert_eq!(decided(wanted, 0o120_777, &mut nothing()), Decision::Replace(Change::Type));
        let mut other = Answers { content: Some(false), ..nothing() };
        assert_eq!(decided(wanted, 0o100_644, &mut other), Decision::Replace(Change::Content));
    }

    #[test]
    fn metadata_is_not_written_to_an_inode_with_names_that_nobody_wants() {
        let decided = |nlink, names, metadata, loses| {
            let wanted = WantedEntry { rights: rights(nlink), clears_directory: false };
            let mut answers = Answers { content: Some(true), metadata: Some(metadata), loses, ..answers() };
            decide(wanted, Some(&status(0o100_644, names)), &mut answers).unwrap()
        };
        assert_eq!(decided(1, 3, Metadata::Same, false), Decision::Leave);
        assert_eq!(decided(1, 1, Metadata::Differs, false), Decision::Metadata);
        assert_eq!(decided(3, 2, Metadata::Differs, false), Decision::Metadata);
        assert_eq!(decided(2, 3, Metadata::Differs, false), Decision::Replace(Change::Metadata));
        assert_eq!(decided(2, 3, Metadata::Differs, true), Decision::Keep);
        assert_eq!(decided(1, 1, Metadata::NeedsNewInode, false), Decision::Replace(Change::Metadata));
    }

    #[test]
    fn an_inode_of_somebody_else_stays_only_as_it_is() {
        let wanted = WantedEntry { rights: rights(1), clears_directory: false };
        let decided = |uid, metadata, loses, capabilities| {
            let mut answers =
                Answers { content: Some(true), metadata: Some(metadata), loses, capabilities, ..answers() };
            decide(wanted, Some(&Status { uid, ..status(0o100_644, 1) }), &mut answers).unwrap()
        };
        let own = wanted.rights.uid;
        assert_eq!(decided(own + 1, Metadata::Same, false, false), Decision::Leave);
        assert_eq!(decided(own + 1, Metadata::Differs, true, false), Decision::Replace(Change::Metadata));
        assert_eq!(decided(own, Metadata::Same, false, true), Decision::Leave);
        if answers().creator.is_root() {
            assert_eq!(decided(own, Metadata::Differs, false, true), Decision::Replace(Change::Metadata));
        }
    }
}
