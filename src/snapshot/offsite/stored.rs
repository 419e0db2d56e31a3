//! The snapshots in a store, and the tags that show which snapshot of a repository each of them is.

use crate::error::{Error, Result};
use crate::snapshot::manifest::{Header, Time};
use data_encoding::HEXLOWER;
use rustic_core::jiff::{Timestamp, tz::TimeZone};
use rustic_core::repofile::SnapshotFile;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The tag with the name of the snapshot.
const NAME: &str = "pleach:";
/// The tag with the beginning of its identity, which no other snapshot has.
const IDENTITY: &str = "pleach-id:";
/// The tag of a snapshot that lacks something in the store.
const INCOMPLETE: &str = "pleach-incomplete";
/// How many bytes of the identity are there.
const BYTES: usize = 8;

/// A snapshot of pleach in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its name in the repository that it came from.
    pub name: String,
    /// Its ID in the store.
    pub id: String,
    /// When it was begun.
    pub created: Time,
    /// The machine that it is of.
    pub host: String,
    /// Its sources.
    pub sources: Vec<PathBuf>,
    /// Its tags, without those of the store.
    pub tags: Vec<String>,
    /// The number of its files, links and special files, if the store has it.
    pub files: Option<u64>,
    /// Their size.
    pub bytes: Option<u64>,
}

/// A snapshot in a store, and its mark if it is one of pleach.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) file: SnapshotFile,
    pub(super) name: Option<String>,
    identity: Option<Vec<u8>>,
}

impl Stored {
    pub(super) fn new(file: SnapshotFile) -> Stored {
        let tag = |prefix: &str| file.tags.iter().find_map(|tag| tag.strip_prefix(prefix)).map(String::from);
        let identity = tag(IDENTITY).and_then(|digits| HEXLOWER.decode(digits.as_bytes()).ok());
        let identity = identity.filter(|identity| identity.len() == BYTES);
        Stored { name: tag(NAME), identity, file }
    }

    /// Whether it is the snapshot of this identity.
    pub(super) fn is(&self, name: &str, identity: &[u8; 32]) -> bool {
        match &self.identity {
            Some(own) => identity.starts_with(own),
            None => self.name.as_deref() == Some(name),
        }
    }

    /// Whether the other one is the same snapshot of pleach.
    fn is_twin(&self, other: &Stored) -> bool {
        self.identity.is_some() && self.identity == other.identity
    }

    /// Whether the other one is the same snapshot, with the same content.
    pub(super) fn is_same(&self, other: &Stored) -> bool {
        self.is_twin(other) && self.file.tree == other.file.tree
    }

    /// How many files it has, with links and special files; none if that is not known.
    pub(super) fn files(&self) -> Option<u64> {
        self.file.summary.as_ref().map(|summary| summary.total_files_processed)
    }

    /// The size of its files; none if that is not known.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.file.summary.as_ref().map(|summary| summary.total_bytes_processed)
    }

    /// Whether its own record says that it lacks something.
    pub(super) fn is_incomplete(&self) -> bool {
        self.file.tags.iter().any(|tag| tag == INCOMPLETE)
    }

    /// Whether it lacks something, and the same snapshot is in the store once more with more. Only its own record
    /// counts for the first: whoever has the password can add snapshots, and could have others removed otherwise.
    pub(super) fn is_superseded(&self, all: &[Stored]) -> bool {
        let has_more = |other: &Stored| !other.is_incomplete() || self.files() < other.files();
        self.is_incomplete() && all.iter().any(|other| self.is_twin(other) && has_more(other))
    }

    /// Whether it is of the same machine and sources, so that it can be a parent.
    pub(super) fn is_akin(&self, header: &Header) -> bool {
        let sources: BTreeSet<String> = paths(header).into_iter().collect();
        self.file.hostname == header.host && self.file.paths.iter().cloned().collect::<BTreeSet<_>>() == sources
    }

    /// When it was begun.
    pub(super) fn created(&self) -> Time {
        let moment = self.file.time.timestamp();
        Time { seconds: moment.as_second(), nanos: moment.subsec_nanosecond().try_into().unwrap_or(0) }
    }

    /// The tags that the user gave.
    pub(super) fn tags(&self) -> Vec<String> {
        let is_own = |tag: &&String| !tag.starts_with(NAME) && !tag.starts_with(IDENTITY) && *tag != INCOMPLETE;
        self.file.tags.iter().filter(is_own).cloned().collect()
    }

    /// Its description, if it is one of pleach.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        Some(Snapshot {
            name: self.name.clone()?,
            id: self.file.id.to_hex().to_string(),
            created: self.created(),
            host: self.file.hostname.clone(),
            sources: self.file.paths.iter().map(PathBuf::from).collect(),
            tags: self.tags(),
            files: self.files(),
            bytes: self.bytes(),
        })
    }
}

/// The sources as restic has them: text.
pub(super) fn paths(header: &Header) -> Vec<String> {
    header.sources.iter().map(|source| String::from_utf8_lossy(source).into_owned()).collect()
}

/// The description of a snapshot for the store, without its tree.
pub(super) fn describe(header: &Header, identity: &[u8; 32], tags: &[String]) -> Result<SnapshotFile> {
    let Time { seconds, nanos } = header.created;
    let moment = Timestamp::new(seconds, nanos as i32)
        .map_err(|_| Error::failed(format!("use the time of the snapshot {}", header.name)))?;
    let mut file = SnapshotFile {
        time: moment.to_zoned(TimeZone::UTC),
        hostname: header.host.clone(),
        program_version: concat!("pleach ", env!("CARGO_PKG_VERSION")).into(),
        ..SnapshotFile::default()
    };
    tags.iter().filter(|tag| *tag != INCOMPLETE).for_each(|tag| file.tags.add(tag.clone()));
    file.tags.add(format!("{NAME}{}", header.name));
    file.tags.add(format!("{IDENTITY}{}", HEXLOWER.encode(&identity[..BYTES])));
    Ok(file)
}

/// Notes in the description of a snapshot that the store lacks something of it.
pub(super) fn mark_incomplete(file: &mut SnapshotFile) {
    file.tags.add(INCOMPLETE.into());
}
