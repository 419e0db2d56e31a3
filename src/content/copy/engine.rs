//! The engines by name: ways in which content comes from one file into another.

use std::fmt;

/// A way to copy, in the order in which one takes the place of another that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// The extents are shared (ioctl_ficlone(2)); nothing is written.
    Clone,
    /// The kernel copies, or shares what it can, without a word (copy_file_range(2)).
    CopyFileRange,
    /// Many reads and writes under way at once (io_uring(7)).
    Uring,
    /// The kernel copies, through a pipe of its own (sendfile(2)).
    Sendfile,
    /// The kernel moves pages through a pipe of ours (splice(2)).
    Splice,
    /// The source is mapped and written from there (mmap(2)).
    Mmap,
    /// Read into buffers and written from them: works everywhere.
    Buffered,
}

impl Engine {
    /// All of them, in that order.
    pub const ALL: [Engine; 7] = [
        Engine::Clone,
        Engine::CopyFileRange,
        Engine::Uring,
        Engine::Sendfile,
        Engine::Splice,
        Engine::Mmap,
        Engine::Buffered,
    ];

    /// The name on the command line and in JSON.
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

    /// The one that serves where this one was refused. Behind the last there is none.
    pub fn next(self) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| *engine > self)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_next_one_but_the_one_that_works_everywhere() {
        let mut engine = Engine::Clone;
        let mut met = vec![engine];
        while let Some(next) = engine.next() {
            engine = next;
            met.push(engine);
        }
        assert_eq!(met, Engine::ALL);
        assert_eq!(engine, Engine::Buffered);
    }
}
