//! What an engine provides: a function that copies ranges, and the facts that it states about itself.

use super::job::{Halt, Job};
use crate::monitor::EngineRefusal;
use rustix::io::Errno;
use std::ops::Range;

/// An engine.
pub(crate) struct Driver {
    /// What it can do.
    pub(super) capabilities: Capabilities,
    /// Copies these ranges of data, in order, and records its progress in the job.
    pub(super) copy: fn(&mut Job<'_>, &[Range<u64>]) -> Result<(), Halt>,
}

/// Facts about an engine. The rest of the copier asks for these and does not compare engines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capabilities {
    /// It shares extents and copies no ranges.
    pub(crate) clones: bool,
    /// It hashes the data that passes. After other engines the copy is read for its hash.
    pub(crate) hashes: bool,
    /// It may refuse files. An engine that never does is always worth trying.
    pub(crate) can_refuse: bool,
    /// Its [`Halt::End`] is certain. The kernel's copying calls also return 0 for files in procfs that have content.
    pub(crate) knows_end: bool,
    /// It copies groups of small files side by side, through the ring of `small_files`.
    pub(crate) takes_groups: bool,
    /// The longest write of a single call of the kernel's own functions, in bytes. The kernel reserves nothing for the
    /// first such write.
    pub(crate) longest_write: u64,
    /// What a refusal applies to.
    pub(crate) scope: Scope,
    /// The meaning of a refusal, if the error has a special meaning for this engine.
    pub(crate) explain: fn(Errno) -> Option<EngineRefusal>,
}

/// What a refusal applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Sources on the same device.
    Device,
    /// The whole process. Then a lack of permission or memory holds for every file.
    Process,
}

impl Capabilities {
    /// The facts about an engine that passes ranges to one of the kernel's copying calls.
    pub(super) const KERNEL_CALL: Capabilities = Capabilities {
        clones: false,
        hashes: false,
        can_refuse: true,
        knows_end: false,
        takes_groups: false,
        longest_write: 64 << 10,
        scope: Scope::Device,
        explain: |_| None,
    };
}
