//! What callers request of a copy and what it returns: requests, results, errors. The copying itself is in `content`.

use super::engine::Engine;
use super::reason::Reason;
use rustix::io::Errno;

/// How to copy a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The engine; `None` chooses one for each file. [`Engine::Clone`] tries nothing else; any other engine tries no
    /// clone.
    pub engine: Option<Engine>,
    /// Whether to compute BLAKE3 of the content.
    pub hashed: bool,
}

/// What a copy did, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Data shared with the source by a clone, without holes.
    pub cloned: u64,
    /// Data written. For a clone: data that Btrfs stores with the metadata, where nothing is shared.
    pub data: u64,
    /// Holes, and ranges that are reserved and never written.
    pub holes: u64,
    /// Data read for the copy, by this process or by the kernel on its behalf.
    pub read: u64,
    /// BLAKE3 of the whole content, if it was requested and the holes are not out of proportion to the data.
    pub hash: Option<[u8; 32]>,
    /// The engine that did most of the work.
    pub engine: Engine,
    /// Why the file was not cloned, if a clone was tried or is known to be refused.
    pub reason: Option<Reason>,
}

impl Copied {
    /// No bytes yet, by this engine.
    pub fn by(engine: Engine) -> Copied {
        Copied { cloned: 0, data: 0, holes: 0, read: 0, hash: None, engine, reason: None }
    }

    /// No bytes yet, by reads and writes outside the engines. Summaries count these as `buffered`.
    pub fn by_reads_and_writes() -> Copied {
        Copied::by(Engine::Buffered)
    }

    /// The size of the copy.
    pub fn size(&self) -> u64 {
        self.cloned + self.data + self.holes
    }
}

/// Which side of a copy failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The file that is read.
    Source(Errno),
    /// The file that is written.
    Destination(Errno),
    /// Only a clone was requested, and it was refused.
    Refused(Reason),
}

/// Whether an error of a destination must end the run because every further entry would fail too: the filesystem is
/// full, over quota, read-only or gone, or this process cannot open more files. Other errors concern one entry: a name
/// or link target that the filesystem rejects, too many links, or a file that is too large.
pub fn is_fatal(errno: Errno) -> bool {
    let is_full_or_gone =
        matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::SHUTDOWN | Errno::NODEV | Errno::NOTCONN);
    is_full_or_gone || matches!(errno, Errno::MFILE | Errno::NFILE)
}
