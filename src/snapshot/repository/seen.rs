//! In which state a snapshot saw its sources, in `.pleach/seen/NAME`: the next snapshot then looks only at
//! later changes (`create::decide`). The file only saves time. It is bound to its manifest, and without it, or if any
//! byte of it is wrong, the next run looks at everything.

use super::handle::Repository;
use crate::fs::mount_id::MountId;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::io::Read as _;

/// The directory of these files, in the control directory.
pub(super) const SEEN: &str = "seen";
/// The beginning of such a file. The BLAKE3 of the rest follows, then the rest in postcard's wire format.
const MAGIC: &[u8; 14] = b"pleach seen 3\n";
/// The largest file that is read or written.
const LARGEST: u64 = 256 << 20;

/// What a run saw of its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// The identity of the snapshot's manifest.
    pub manifest: [u8; 32],
    /// A digest of the program's version and of the options that decide about the records.
    pub conditions: [u8; 32],
    /// How many runs in a row have looked only at changes.
    pub narrow: u32,
    /// The bytes in holes and in inline files, as the manifest's records have them. Hard links count once.
    pub hole_bytes: u64,
    /// See `hole_bytes`.
    pub inline_bytes: u64,
    /// The sources, and the directories below them that begin another filesystem or subvolume.
    pub tops: Vec<Top>,
    /// The XFS filesystems of the sources.
    pub swept: Vec<SeenInodes>,
    /// Entries to look at even if they do not change: their records will be others next time.
    pub unsettled: Vec<Vec<u8>>,
}

/// A directory that begins a part of the sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Top {
    /// Its path without the leading slash.
    pub path: Vec<u8>,
    /// Its inode number.
    pub ino: u64,
    /// `st_dev` as the manifest's records have it.
    pub dev: u64,
    /// Where it lies. `None`: nothing is known of its changes.
    pub part: Option<Part>,
}

/// A part of the sources with changes that the filesystem shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Part {
    /// A subvolume of a Btrfs.
    Subvolume(SeenSubvolume),
    /// The XFS with this UUID. [`Seen::swept`] has its inodes.
    Xfs([u8; 16]),
}

/// The inodes of an XFS as a run saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeenInodes {
    /// The UUID of the filesystem.
    pub filesystem: [u8; 16],
    /// The digests of `tree::sweep`.
    #[serde(with = "serde_bytes")]
    pub digests: Vec<u8>,
}

/// A Btrfs subvolume as a run saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeenSubvolume {
    /// The UUID of the filesystem.
    pub filesystem: [u8; 16],
    /// Its UUID.
    pub uuid: [u8; 16],
    /// The run saw all changes up to this transaction.
    pub transaction: u64,
    /// The mount of the filesystem. In another one it may be an older image, with other changes in transactions of the
    /// same numbers.
    pub mount: MountId,
}

/// What the run that made this snapshot saw, if it is known. `manifest` is the identity of the manifest.
pub(crate) fn seen(repository: &Repository, name: &str, manifest: &[u8; 32]) -> Option<Seen> {
    let mut bytes = Vec::new();
    let file = repository.control.dir_if_any(SEEN)?.file(name, OFlags::RDONLY, Mode::empty()).ok()?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    parse(&bytes).filter(|seen| seen.manifest == *manifest)
}

/// Records what the run that made the snapshot `name` saw. That of `parent`, which it was compared with, is of no more
/// use.
pub(crate) fn note_seen(repository: &Repository, (name, parent): (&str, Option<&str>), seen: &Seen) {
    let Some(bytes) = format(seen) else { return };
    let write = || {
        let dir = repository.control.make_dir(SEEN)?;
        for old in [Some(name), parent].into_iter().flatten() {
            dir.unlink(old)?;
        }
        dir.write_new(name, bytes)
    };
    let _ = write();
}

pub(super) fn format(seen: &Seen) -> Option<Vec<u8>> {
    let payload = postcard::to_stdvec(seen).ok()?;
    let bytes = [&MAGIC[..], blake3::hash(&payload).as_bytes(), &payload].concat();
    (bytes.len() as u64 <= LARGEST).then_some(bytes)
}

pub(super) fn parse(bytes: &[u8]) -> Option<Seen> {
    let (digest, payload) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<32>()?;
    if bytes.len() as u64 > LARGEST || blake3::hash(payload).as_bytes() != digest {
        return None;
    }
    postcard::from_bytes(payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Seen {
        let mount = MountId { boot: "b".into(), mount: 7 };
        let subvolume = SeenSubvolume { filesystem: [1; 16], uuid: [2; 16], transaction: 77, mount };
        let top = Top { path: b"srv/data".to_vec(), ino: 256, dev: 42, part: Some(Part::Subvolume(subvolume)) };
        let on_xfs = Top { part: Some(Part::Xfs([5; 16])), ..top.clone() };
        let tops = vec![top.clone(), on_xfs, Top { part: None, ..top }];
        Seen {
            manifest: [3; 32],
            conditions: [4; 32],
            tops,
            swept: vec![SeenInodes { filesystem: [5; 16], digests: vec![6; 32] }],
            unsettled: vec![b"srv/data/x".to_vec()],
            ..Seen::default()
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(parse(&format(&sample()).unwrap()), Some(sample()));
    }

    #[test]
    fn a_record_of_which_any_byte_is_wrong_or_missing_is_none() {
        let whole = format(&sample()).unwrap();
        for at in 0..whole.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            assert_eq!(parse(&wrong), None, "byte {at}");
            assert_eq!(parse(&whole[..at]), None, "cut at {at}");
        }
    }
}
