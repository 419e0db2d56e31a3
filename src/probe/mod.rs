//! The capabilities of a filesystem, found by trying. The answers are typed facts (`answer`); `output` words them.
//!
//! A question is a small function of a `Place`; `QUESTIONS` lists them all. Questions try things on unnamed files
//! (see `place`), so nothing stays behind. A question that cannot be tried stays open; nothing is guessed.

mod answer;
pub(crate) mod bench;
mod content;
mod kind;
mod machine;
mod metadata;
mod mounted;
mod place;
mod sharing;
mod subvolume;

pub use crate::fs::filesystem::{Kind, Magic};
pub use answer::{
    AccessTimes, Answer, CopyFileRange, Dedupe, DirectIo, Discard, Free, IoUring, Quota, Reflink, ReverseMap,
    TrustedXattrs,
};

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use answer::Reply;
use place::Place;
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// A question and its answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Item {
    /// The question, as one word.
    pub name: &'static str,
    /// The answer. An error: the question stays open, because of this.
    pub answer: io::Result<Answer>,
}

/// The answers of a probe.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The answers, in the order of the questions. Questions that make no sense on this filesystem are omitted.
    pub items: Vec<Item>,
    /// The number of open questions.
    pub open: u64,
}

type Question = fn(&Place) -> Reply;

const QUESTIONS: [(&str, Question); 34] = [
    ("filesystem", kind::filesystem),
    ("mount_point", mounted::mount_point),
    ("read_only", mounted::read_only),
    ("user", machine::user),
    ("block_size", kind::block_size),
    ("space_free", kind::space_free),
    ("inodes_free", kind::inodes_free),
    ("quota", mounted::quota),
    ("reflink", sharing::reflink),
    ("dedupe", sharing::dedupe),
    ("fiemap", sharing::fiemap),
    ("reverse_map", sharing::reverse_map),
    ("copy_file_range", sharing::copy_file_range),
    ("copy_keeps_holes", sharing::copy_keeps_holes),
    ("holes", content::holes),
    ("punch_hole", content::punch_hole),
    ("unwritten", content::unwritten),
    ("unnamed_files", content::unnamed_files),
    ("direct_io", content::direct_io),
    ("io_uring", machine::io_uring),
    ("copy_on_write", mounted::copy_on_write),
    ("checksums", mounted::checksums),
    ("compression", mounted::compression),
    ("access_times", mounted::access_times),
    ("discard", mounted::discard),
    ("nanosecond_times", metadata::nanosecond_times),
    ("user_xattrs", metadata::user_xattrs),
    ("trusted_xattrs", metadata::trusted_xattrs),
    ("acls", metadata::acls),
    ("name_length", kind::name_length),
    ("subvolume", subvolume::subvolume),
    ("subvolume_read_only", subvolume::read_only),
    ("snapshots", subvolume::snapshots),
    ("snapshot_deletion", subvolume::deletion),
];

/// Asks all questions about the filesystem of `path`: a directory, or the directory of a file.
///
/// The monitor gets one report on why questions stay open.
///
/// ```
/// use pleach::probe::{Answer, Reflink, probe};
/// let dir = tempfile::tempdir()?;
/// let answers = probe(dir.path(), &pleach::monitor::Silent)?;
/// let shares = answers.items.iter().any(|item| matches!(item.answer, Ok(Answer::Reflink(Reflink::Shared))));
/// println!("files can share data: {shares}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the path does not exist, or the monitor asks to stop.
pub fn probe(path: &Path, monitor: &dyn Monitor) -> Result<Stats> {
    let place = Place::open(path)?;
    let mut stats = Stats::default();
    for (name, question) in QUESTIONS {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        match question(&place) {
            Ok(Some(answer)) => stats.items.push(Item { name, answer: Ok(answer) }),
            Ok(None) => {}
            Err(errno) => {
                stats.open += 1;
                stats.items.push(Item { name, answer: Err(errno.into()) });
            }
        }
    }
    if let Some(errno) = place.unwritable() {
        let hint = match errno {
            Errno::ROFS => "it is read-only: what needs a test file stays open",
            Errno::ACCESS | Errno::PERM => "name a directory that you may write to; what needs a test file stays open",
            _ => "what needs a test file stays open",
        };
        monitor.problem(&Error::io("make a test file in", place.path(), errno).hint(hint));
    }
    Ok(stats)
}
