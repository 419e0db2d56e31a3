//! The engines by name: the ways to copy a file's content. What each one can do is in `engines`.

use std::fmt;

/// A way to copy content. The order is that of listings; `engines` has the order of fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Engine {
    /// Shares the extents (ioctl_ficlone(2)) and writes nothing.
    Clone,
    /// The kernel copies, or silently shares what it can (copy_file_range(2)).
    CopyFileRange,
    /// Many reads and writes at once (io_uring(7)).
    Uring,
    /// The kernel copies through a pipe of its own (sendfile(2)).
    Sendfile,
    /// The kernel moves pages through a pipe of this process (splice(2)).
    Splice,
    /// Maps the source and writes from the mapping (mmap(2)).
    Mmap,
    /// Reads into buffers and writes from them. Works everywhere.
    Buffered,
}

impl Engine {
    /// All engines, in the order of listings.
    pub const ALL: [Engine; 7] = [
        Engine::Clone,
        Engine::CopyFileRange,
        Engine::Uring,
        Engine::Sendfile,
        Engine::Splice,
        Engine::Mmap,
        Engine::Buffered,
    ];

    /// The name, on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Clone => "clone",
            Engine::CopyFileRange => "copy_file_range",
            Engine::Uring => "uring",
            Engine::Sendfile => "sendfile",
            Engine::Splice => "splice",
            Engine::Mmap => "mmap",
            Engine::Buffered => "buffered",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
