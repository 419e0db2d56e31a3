//! Who takes part: pleach with each of its engines, the tools that one would use instead, and the floors.

use super::pairs::Pair;
use super::trees::Tree;
use crate::measure::Cache;
use crate::pleach;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{find, program};
use xtask::packages;

/// The releases that are installed.
pub(super) const CRATES: [(&str, &str); 2] = [("xcp", "0.24.9"), ("cpz", "3.2.1")];

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Contender {
    /// pleach copy, which chooses the engine of each file.
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
    /// The system calls that no copy can leave out.
    BareCalls,
    /// The same and those that a finished file takes, of which nobody ever sees half.
    FinishedCalls,
    /// As many bytes read and written past the page cache.
    Device,
}

/// All of them.
pub(super) const ALL: [Contender; 17] = [
    Contender::Auto,
    Contender::Clone,
    Contender::CopyFileRange,
    Contender::Uring,
    Contender::Sendfile,
    Contender::Splice,
    Contender::Mmap,
    Contender::Buffered,
    Contender::CpA,
    Contender::CpR,
    Contender::Xcp,
    Contender::Cpz,
    Contender::Rsync,
    Contender::Tar,
    Contender::BareCalls,
    Contender::FinishedCalls,
    Contender::Device,
];

/// What a contender is to pleach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// What a user gets.
    Auto,
    /// One engine for all files.
    Engine,
    /// Another tool.
    Peer,
    /// What nobody can be faster than.
    Floor,
}

/// Under which conditions a command is to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub(super) pair: Pair,
    pub(super) tree: Tree,
    pub(super) cache: Cache,
}

impl Contender {
    /// Its name in tables.
    pub(super) fn name(self, of: &Conditions) -> String {
        let sparse = if of.tree == Tree::Sparse { "S" } else { "" };
        match self {
            Contender::Auto => "`pleach copy`".into(),
            Contender::CpA => "`cp -a`".into(),
            Contender::CpR => "`cp -r`".into(),
            Contender::Xcp => "`xcp -r`".into(),
            Contender::Cpz => "`cpz`".into(),
            Contender::Rsync => format!("`rsync -a{sparse}`"),
            Contender::Tar if sparse.is_empty() => "`tar \\| tar`".into(),
            Contender::Tar => "`tar -S \\| tar`".into(),
            Contender::BareCalls => "the bare calls".into(),
            Contender::FinishedCalls => "the finished calls".into(),
            Contender::Device => "the device alone".into(),
            _ => format!("`… --engine {}`", self.engine().unwrap_or_default()),
        }
    }

    pub(super) fn role(self) -> Role {
        match self {
            Contender::Auto => Role::Auto,
            Contender::CpA | Contender::CpR | Contender::Xcp | Contender::Cpz | Contender::Rsync | Contender::Tar => {
                Role::Peer
            }
            Contender::BareCalls | Contender::FinishedCalls | Contender::Device => Role::Floor,
            _ => Role::Engine,
        }
    }

    /// The name of the engine that it names.
    fn engine(self) -> Option<&'static str> {
        Some(match self {
            Contender::Clone => "clone",
            Contender::CopyFileRange => "copy_file_range",
            Contender::Uring => "uring",
            Contender::Sendfile => "sendfile",
            Contender::Splice => "splice",
            Contender::Mmap => "mmap",
            Contender::Buffered => "buffered",
            _ => return None,
        })
    }

    /// Whether it has anything to do there.
    pub(super) fn fits(self, pair: Pair) -> bool {
        match self {
            Contender::Clone => pair.clones(),
            Contender::Device => !pair.clones(),
            _ => true,
        }
    }

    fn program(self) -> Option<PathBuf> {
        let installed = |name: &str| {
            Some(packages::tools_dir().join("bin").join(name)).filter(|path| path.is_file()).or_else(|| find(name))
        };
        match self {
            Contender::CpA | Contender::CpR => find("cp"),
            Contender::Xcp => installed("xcp"),
            Contender::Cpz => installed("cpz"),
            Contender::Rsync => find("rsync"),
            Contender::Tar => find("tar"),
            Contender::BareCalls | Contender::FinishedCalls | Contender::Device => std::env::current_exe().ok(),
            _ => Some(pleach()),
        }
    }

    /// Whether it is installed.
    pub(super) fn is_present(self) -> bool {
        self.program().is_some_and(|path| path.is_file())
    }

    /// Its version in its own words.
    pub(super) fn version(self) -> String {
        let said = Command::new(self.program().unwrap_or_default()).arg("--version").output();
        let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
        said.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The command that makes `to`, which is not there, a copy of `from`; `stream` is for the device alone.
    pub(super) fn command(self, from: &Path, to: &Path, stream: &Path, of: &Conditions) -> Command {
        let mut command = program(self.program().unwrap_or_default());
        command.env("LC_ALL", "C");
        let is_sparse = of.tree == Tree::Sparse;
        match self {
            Contender::CpA => command.arg("-a").arg(from).arg(to),
            Contender::CpR => command.arg("-r").arg(from).arg(to),
            Contender::Xcp => command.args(["--recursive", "--no-progress"]).arg(from).arg(to),
            Contender::Cpz => command.arg(from).arg(to),
            Contender::Rsync => {
                let mut from = from.as_os_str().to_owned();
                from.push("/");
                command.arg(if is_sparse { "-aS" } else { "-a" }).arg(from).arg(to)
            }
            Contender::Tar => {
                // As arguments, since strace is given those and not the environment.
                let script = r#"mkdir "$2" && "$0" -C "$1" $3 -cf - . | "$0" -C "$2" -xf -"#;
                let tar = self.program().unwrap_or_default();
                command = program("sh");
                command.args(["-c", script]).arg(tar).arg(from).arg(to).arg(if is_sparse { "-S" } else { "" })
            }
            Contender::BareCalls | Contender::FinishedCalls => {
                command.args(["bare-copy", "--threads", if of.cache == Cache::Cold { "8" } else { "2" }]);
                if of.pair.clones() {
                    command.arg("--clone");
                }
                if self == Contender::FinishedCalls {
                    command.arg("--finished");
                }
                command.arg(from).arg(to)
            }
            Contender::Device => {
                command.args(["bare-stream"]);
                if of.cache == Cache::Warm {
                    command.arg("--write-only");
                }
                command.arg(stream).arg(to)
            }
            _ => {
                command.args(["copy", "--quiet"]);
                if let Some(engine) = self.engine() {
                    command.args(["--engine", engine]);
                }
                command.arg(from).arg(to)
            }
        };
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn everyone_is_in_the_list_once() {
        assert_eq!(Contender::value_variants(), ALL);
    }

    #[test]
    fn engines_are_named_as_pleach_names_them() {
        let ours: Vec<_> = ALL.into_iter().filter_map(Contender::engine).collect();
        assert_eq!(ours, pleach::copy::Engine::ALL.map(pleach::copy::Engine::name));
    }
}
