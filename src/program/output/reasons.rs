//! The words for the reasons that events and stats give.

use crate::monitor::{CacheFault, EngineRefusal, Fault, Pinned, Skip, WholeWalk};
use crate::util::text;
use std::borrow::Cow;
use std::io;

/// Why an engine cannot copy.
pub(super) fn engine_refusal(reason: EngineRefusal) -> Cow<'static, str> {
    match reason {
        EngineRefusal::RingForbidden => {
            "io_uring is unavailable, forbidden by sysctl kernel.io_uring_disabled or a filter".into()
        }
        EngineRefusal::RingMissing => "io_uring is unavailable, this kernel has none".into(),
        EngineRefusal::RingMemory => "io_uring is unavailable, by the limit of locked memory (`ulimit -l`)".into(),
        EngineRefusal::OtherFilesystem => "the files lie on different filesystems".into(),
        EngineRefusal::Unsupported => "the kernel does not offer it for these files".into(),
        EngineRefusal::Invalid => "the kernel finds it invalid for this pair of files".into(),
        EngineRefusal::Refused(errno) => io::Error::from_raw_os_error(errno).to_string().into(),
    }
}

/// Why a run looks at everything.
pub(super) fn whole_walk(why: WholeWalk<'_>) -> String {
    match why {
        WholeWalk::Due => "it is time to check that nothing was missed".into(),
        WholeWalk::OtherConditions => {
            "the sources, the options or pleach itself changed since the last snapshot".into()
        }
        WholeWalk::OtherSubvolumes => {
            "the sources are in other subvolumes or filesystems than at the last snapshot".into()
        }
        WholeWalk::ExcludesByAge => "files are excluded by age".into(),
        WholeWalk::ManyChanges => "so much changed that this is as fast".into(),
        WholeWalk::Unreadable => "the filesystem's trees, or the last manifest, could not be read".into(),
        WholeWalk::MountedAgain => "the filesystem was mounted again since the last snapshot".into(),
        WholeWalk::Disagrees(path) => {
            format!("{} changed, and the filesystem does not show it", text::path(path))
        }
    }
}

/// How an entry of a snapshot differs from its record, as text after its path.
pub(super) fn fault(fault: Fault) -> &'static str {
    match fault {
        Fault::Manifest => "the manifest is damaged",
        Fault::NoManifest => "there is no manifest of this directory",
        Fault::Missing => "missing",
        Fault::Unlisted => "not in the manifest",
        Fault::Type => "its type differs",
        Fault::Size => "its size differs",
        Fault::Content => "its content differs from its hash",
        Fault::Unreadable => "its data cannot be read",
        Fault::Target => "its target differs",
        Fault::Device => "its device number differs",
        Fault::Owner => "its owner or group differs",
        Fault::Mode => "its mode differs",
        Fault::Mtime => "its modification time differs",
    }
}

/// Why files were skipped, as text after their number.
pub(super) fn skip(reason: Skip) -> &'static str {
    match reason {
        Skip::Differs => "not equal after all",
        Skip::Changed => "changed meanwhile",
        Skip::Vanished => "vanished meanwhile",
        Skip::Unreadable => "unreadable",
        Skip::Inline => "so small that they lie in the metadata",
        Skip::Immutable => "immutable",
        Skip::NoPermission => "not yours to write",
        Skip::SwapFile => "swap files",
        Skip::Nocow => "with a different NOCOW flag",
        Skip::ReadOnly => "on a read-only mount",
        Skip::Sending => "being sent by btrfs send",
        Skip::OtherFilesystem => "on another filesystem",
        Skip::Unsupported => "on a filesystem that cannot share extents",
        Skip::Sparse => "nearly nothing but holes",
        Skip::NoSpace => "on a full filesystem",
        Skip::Refused => "refused by the kernel",
    }
}

/// Why equal data is not shared, as text after its size.
pub(super) fn pinned(reason: Pinned) -> &'static str {
    match reason {
        Pinned::Held => "held by something outside the given paths, such as a snapshot",
        Pinned::PerhapsHeld => "perhaps held by something outside the given paths, which only root can find out",
        Pinned::Costly => "in extents that cost more to rewrite than they free",
        Pinned::NoPlace => "in extents that cannot be rewritten, as in read-only subvolumes",
        Pinned::Immovable => "in extents with a last block shared by files of different length",
    }
}

/// Why a cache cannot be used, as text after its path.
pub(super) fn cache_fault(fault: &CacheFault) -> Cow<'static, str> {
    match fault {
        CacheFault::WritableByOthers => "can be written by others".into(),
        CacheFault::Truncated => "is cut short".into(),
        CacheFault::OtherVersion => "is of another version".into(),
        CacheFault::Damaged => "is damaged".into(),
        CacheFault::Unreadable { cause } => format!("cannot be read ({cause})").into(),
    }
}
