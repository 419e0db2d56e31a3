//! The contenders: pleach with each of its engines, the usual tools for the job, and the floors.

use super::pairs::{Pair, stream};
use super::trees::Tree;
use crate::contender::{Contender, Figures, Role};
use crate::floor;
use crate::stage::{Cache, Stage};
use crate::tools::{installed, own, plain, pleach};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use pleach::copy_tree::Engine;
use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use xtask::command::{find, output, program};
use xtask::packages::Crate;

/// The crates to install, with their releases.
pub(super) const CRATES: [Crate; 2] = [XCP, CPZ];
const XCP: Crate = Crate { name: "xcp", version: "0.24.9", debug: false };
const CPZ: Crate = Crate { name: "cpz", version: "3.2.1", debug: false };

/// A contender of this bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// pleach copy, which chooses the engine for each file.
    Auto,
    /// pleach copy with this engine.
    Engine(Engine),
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

/// The contenders other than pleach.
const OTHERS: [Tool; 8] =
    [Tool::CpA, Tool::CpR, Tool::Xcp, Tool::Cpz, Tool::Rsync, Tool::Tar, Tool::FinishedCalls, Tool::Device];

/// All contenders.
pub(super) static ALL: LazyLock<Vec<Tool>> =
    LazyLock::new(|| [Tool::Auto].into_iter().chain(Engine::ALL.map(Tool::Engine)).chain(OTHERS).collect());

/// The engines' names, as this bench spells them on the command line.
static ENGINES: LazyLock<[String; Engine::ALL.len()]> =
    LazyLock::new(|| Engine::ALL.map(|engine| engine.name().replace('_', "-")));

impl ValueEnum for Tool {
    fn value_variants<'a>() -> &'a [Tool] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let name = match self {
            Tool::Auto => "auto",
            Tool::Engine(engine) => &ENGINES[*engine as usize],
            Tool::CpA => "cp-a",
            Tool::CpR => "cp-r",
            Tool::Xcp => "xcp",
            Tool::Cpz => "cpz",
            Tool::Rsync => "rsync",
            Tool::Tar => "tar",
            Tool::FinishedCalls => "finished-calls",
            Tool::Device => "device",
        };
        let value = PossibleValue::new(name);
        Some(match self {
            Tool::Auto => value.help("pleach copy, which chooses the engine for each file"),
            Tool::FinishedCalls => value.help("The system calls for copies that nobody ever sees half finished"),
            Tool::Device => value.help("The same number of bytes, read and written past the page cache"),
            _ => value,
        })
    }
}

impl Tool {
    /// Whether it can do anything useful for this pair.
    pub(super) fn fits(self, pair: Pair) -> bool {
        match self {
            Tool::Engine(Engine::Clone) => pair.clones(),
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
            Tool::Engine(engine) => format!("`… --engine {engine}`"),
        }
    }

    fn role(&self) -> Role {
        match self.tool {
            Tool::Auto => Role::Ours,
            Tool::CpA | Tool::CpR | Tool::Xcp | Tool::Cpz | Tool::Rsync | Tool::Tar => Role::Peer,
            Tool::FinishedCalls | Tool::Device => Role::Floor,
            Tool::Engine(_) => Role::Variant,
        }
    }

    fn program(&self) -> Option<PathBuf> {
        match self.tool {
            Tool::CpA | Tool::CpR => find("cp"),
            Tool::Xcp => installed(&XCP),
            Tool::Cpz => installed(&CPZ),
            Tool::Rsync => find("rsync"),
            Tool::Tar => find("tar"),
            Tool::FinishedCalls | Tool::Device => own(),
            Tool::Auto | Tool::Engine(_) => Some(pleach()),
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
            Tool::Auto => command.args(["copy", "--quiet"]).arg(from),
            Tool::Engine(engine) => command.args(["copy", "--quiet", "--engine", engine.name()]).arg(from),
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
    use std::collections::BTreeSet;

    #[test]
    fn everyone_is_in_the_list_once() {
        let names = ALL.iter().filter_map(|tool| Some(tool.to_possible_value()?.get_name().to_owned()));
        let names: BTreeSet<String> = names.collect();
        assert_eq!((names.len(), ALL.len()), (16, 16));
        assert!(names.contains("copy-file-range"));
    }
}
