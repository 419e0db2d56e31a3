//! The contenders: pleach with each of its engines, the usual tools for the job, and the floors.

use super::pairs::{Pair, stream};
use super::trees::Tree;
use crate::contender::{Contender, Figures, Role};
use crate::floor;
use crate::stage::{Cache, Stage};
use crate::tools::{installed, own, plain, pleach};
use anyhow::{Context, Result, ensure};
use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use xtask::command::{find, output, program};

/// The crates to install, with their releases.
pub(super) const CRATES: [(&str, &str); 2] = [("xcp", "0.24.9"), ("cpz", "3.2.1")];

/// A contender of this bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Tool {
    /// pleach copy, which chooses the engine for each file.
    Auto,
    Clone,
    CopyFileRange,
    Uring,
    Sendfile,
    Splice,
    Mmap,
    Buffered,
    CpA,
    CpR,
    Xcp,
    Cpz,
    Rsync,
    Tar,
    /// The system calls for copies that nobody ever sees half finished.
    FinishedCalls,
    /// The same number of bytes, read and written past the page cache.
    Device,
}

/// All contenders.
pub(super) const ALL: [Tool; 16] = [
    Tool::Auto,
    Tool::Clone,
    Tool::CopyFileRange,
    Tool::Uring,
    Tool::Sendfile,
    Tool::Splice,
    Tool::Mmap,
    Tool::Buffered,
    Tool::CpA,
    Tool::CpR,
    Tool::Xcp,
    Tool::Cpz,
    Tool::Rsync,
    Tool::Tar,
    Tool::FinishedCalls,
    Tool::Device,
];

impl Tool {
    /// The name of the engine that this contender selects.
    fn engine(self) -> Option<&'static str> {
        Some(match self {
            Tool::Clone => "clone",
            Tool::CopyFileRange => "copy_file_range",
            Tool::Uring => "uring",
            Tool::Sendfile => "sendfile",
            Tool::Splice => "splice",
            Tool::Mmap => "mmap",
            Tool::Buffered => "buffered",
            _ => return None,
        })
    }

    /// Whether it can do anything useful for this pair.
    pub(super) fn fits(self, pair: Pair) -> bool {
        match self {
            Tool::Clone => pair.clones(),
            Tool::Device => !pair.clones(),
            _ => true,
        }
    }
}

/// A tool under the conditions of a case.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) tool: Tool,
    pub(super) pair: Pair,
    pub(super) tree: Tree,
    pub(super) cache: Cache,
    /// Whether one of its copies has been compared already; comparing takes long.
    pub(super) is_compared: Cell<bool>,
}

impl Contender for Way {
    fn name(&self) -> String {
        let sparse = if self.tree == Tree::Sparse { "S" } else { "" };
        match self.tool {
            Tool::Auto => "pleach copy".into(),
            Tool::CpA => "`cp -a`".into(),
            Tool::CpR => "`cp -r`".into(),
            Tool::Xcp => "`xcp -r`".into(),
            Tool::Cpz => "`cpz`".into(),
            Tool::Rsync => format!("`rsync -a{sparse}`"),
            Tool::Tar if sparse.is_empty() => "`tar \\| tar`".into(),
            Tool::Tar => "`tar -S \\| tar`".into(),
            Tool::FinishedCalls => "the finished calls".into(),
            Tool::Device => "the device alone".into(),
            _ => format!("`… --engine {}`", self.tool.engine().unwrap_or_default()),
        }
    }

    fn role(&self) -> Role {
        match self.tool {
            Tool::Auto => Role::Ours,
            Tool::CpA | Tool::CpR | Tool::Xcp | Tool::Cpz | Tool::Rsync | Tool::Tar => Role::Peer,
            Tool::FinishedCalls | Tool::Device => Role::Floor,
            _ => Role::Variant,
        }
    }

    fn program(&self) -> Option<PathBuf> {
        match self.tool {
            Tool::CpA | Tool::CpR => find("cp"),
            Tool::Xcp => installed("xcp"),
            Tool::Cpz => installed("cpz"),
            Tool::Rsync => find("rsync"),
            Tool::Tar => find("tar"),
            Tool::FinishedCalls | Tool::Device => own(),
            _ => Some(pleach()),
        }
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        stage.clear()
    }

    fn command(&self, stage: &Stage) -> Command {
        let (from, to) = (stage.tree(), stage.fresh());
        let mut command = plain(self.program());
        let is_sparse = self.tree == Tree::Sparse;
        match self.tool {
            Tool::CpA => command.arg("-a").arg(from),
            Tool::CpR => command.arg("-r").arg(from),
            Tool::Xcp => command.args(["--recursive", "--no-progress"]).arg(from),
            Tool::Cpz => command.arg(from),
            Tool::Rsync => command.arg(if is_sparse { "-aS" } else { "-a" }).arg(from.join("")),
            Tool::Tar => {
                let script = r#"mkdir "$3" && "$0" -C "$2" $1 -cf - . | "$0" -C "$3" -xf -"#;
                command = program("sh");
                command.args(["-c", script]).arg(self.program().unwrap_or_default());
                command.arg(if is_sparse { "-S" } else { "" }).arg(from)
            }
            Tool::FinishedCalls => {
                let threads = if self.cache == Cache::Cold { "8" } else { "2" };
                command = floor::command(["tree", "--aside", "--threads", threads, "--writers", threads]);
                command.args(self.pair.clones().then_some("--clone")).arg(from)
            }
            Tool::Device => {
                command = floor::command(["stream"]);
                command.args((self.cache == Cache::Warm).then_some("--write-only")).arg(stream(stage))
            }
            _ => {
                command.args(["copy", "--quiet"]);
                if let Some(engine) = self.tool.engine() {
                    command.args(["--engine", engine]);
                }
                command.arg(from)
            }
        };
        command.arg(to);
        command
    }

    /// Compares the first copy with the tree.
    fn check(&self, stage: &mut Stage, _said: &str) -> Result<Figures> {
        ensure!(stage.fresh().is_dir(), "it has made nothing");
        // The device contender copies a different file, and the finished calls make no hard links.
        let is_done = self.is_compared.replace(true) || self.tool == Tool::Device;
        if !is_done && (self.tool != Tool::FinishedCalls || self.tree != Tree::Real) {
            let compared =
                output(program("diff").args(["-rq", "--no-dereference"]).arg(stage.tree()).arg(stage.fresh()));
            compared.context("it has made something else")?;
        }
        Ok(Figures::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn everyone_is_in_the_list_once() {
        assert_eq!(Tool::value_variants(), ALL);
    }
}
