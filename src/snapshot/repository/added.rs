//! The space that each snapshot added on the disk, measured when it was published, in `.pleach/added/NAME`. The
//! manifest cannot have it, because the manifest is part of the measured space. A snapshot without such a file is
//! complete.

use super::handle::Repository;
use rustix::fs::{Mode, OFlags};
use std::io::Read;
use std::os::fd::AsFd;

/// The directory of these files, in the control directory.
pub(super) const ADDED: &str = "added";
/// The beginning of such a file.
const SENTENCE: &str = "added 1";

/// The space that a snapshot added on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// Data that was written, in whole blocks.
    pub data_bytes: u64,
    /// The rest of the space that the filesystem lost meanwhile. It includes the changes that others made at the same
    /// time.
    pub metadata_bytes: u64,
    /// Whether its run suggested to store unchanged files as hard links.
    pub suggested: bool,
}

/// The space of a filesystem at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that are free for this user.
    pub free: u64,
    /// All bytes.
    pub total: u64,
}

/// The space of the filesystem of this directory, if the filesystem reports it.
pub(crate) fn space(dir: impl AsFd) -> Option<Space> {
    let space = rustix::fs::fstatvfs(dir).ok()?;
    let used = space.f_blocks.saturating_sub(space.f_bfree).saturating_mul(space.f_frsize);
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    Some(Space { used, free: bytes(space.f_bavail), total: bytes(space.f_blocks) })
}

/// The space that a snapshot added, if it was recorded.
pub(crate) fn added(repository: &Repository, name: &str) -> Option<Added> {
    let dir = repository.control.dir_if_any(ADDED)?;
    let mut text = String::new();
    dir.file(name, OFlags::RDONLY, Mode::empty()).ok()?.take(256).read_to_string(&mut text).ok()?;
    parse(&text)
}

/// Records the space that a snapshot added. It is only informational: if it cannot be recorded, `list` shows
/// nothing.
pub(crate) fn note_added(repository: &Repository, name: &str, added: &Added) {
    let write = || {
        let dir = repository.control.make_dir(ADDED)?;
        dir.unlink(name)?;
        dir.write_new(name, format(added))
    };
    let _ = write();
}

pub(super) fn format(added: &Added) -> String {
    let Added { data_bytes, metadata_bytes, suggested } = added;
    format!("{SENTENCE} data {data_bytes} metadata {metadata_bytes} suggested {suggested}\n")
}

pub(super) fn parse(text: &str) -> Option<Added> {
    let words: Vec<&str> = text.trim_end().strip_prefix(SENTENCE)?.split_whitespace().collect();
    let ["data", data, "metadata", metadata, "suggested", suggested] = words[..] else { return None };
    let (data_bytes, metadata_bytes) = (data.parse().ok()?, metadata.parse().ok()?);
    Some(Added { data_bytes, metadata_bytes, suggested: suggested.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_is_read() {
        let added = Added { data_bytes: 5, metadata_bytes: 6, suggested: true };
        assert_eq!(parse("added 1 data 5 metadata 6 suggested true\n"), Some(added));
        for text in
            ["", "added 2 data 5 metadata 6 suggested true", "added 1 data x metadata 6 suggested true", "added 1"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
