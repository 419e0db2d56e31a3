//! Who takes part: pleach, with and without block ranges, the bare system calls, and the tools that one would use instead.

use super::bare;
use crate::pleach;
use anyhow::Result;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{find, program};
use xtask::packages;

/// The release of fclones that is installed.
pub(super) const FCLONES: &str = "0.35.0";

/// The variable that names another duperemove, which takes part beside the packaged one.
const DUPEREMOVE: &str = "PLEACH_BENCH_DUPEREMOVE";

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Contender {
    /// As a user runs it.
    Pleach,
    /// Whole files only, which is what most of the others do.
    PleachWhole,
    /// The system calls that whole files take, for the files that pleach found equal.
    BareCalls,
    Jdupes,
    Fclones,
    Rmlint,
    Duperemove,
    /// With the smallest blocks, since by default it passes over files below 128 KiB.
    DuperemoveSmall,
    /// Another one, which the variable names.
    DuperemoveOther,
}

/// All of them.
pub(super) const ALL: [Contender; 9] = [
    Contender::Pleach,
    Contender::PleachWhole,
    Contender::BareCalls,
    Contender::Jdupes,
    Contender::Fclones,
    Contender::Rmlint,
    Contender::Duperemove,
    Contender::DuperemoveSmall,
    Contender::DuperemoveOther,
];

/// What pleach says of itself in its summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Bytes that it freed.
    pub(super) freed: u64,
    /// Bytes of file data that it read.
    pub(super) read: u64,
}

impl Contender {
    /// Its name in tables.
    pub(super) fn name(self) -> String {
        let name = match self {
            Contender::Pleach => "pleach dedupe",
            Contender::PleachWhole => "pleach dedupe --ranges never",
            Contender::BareCalls => "the bare calls",
            Contender::Jdupes => "jdupes -B",
            Contender::Fclones => "fclones group, dedupe",
            Contender::Rmlint => "rmlint, its script",
            Contender::Duperemove => "duperemove -d",
            Contender::DuperemoveSmall => "duperemove -d -b 4096",
            Contender::DuperemoveOther => return format!("{} -d", self.own_words()),
        };
        name.into()
    }

    /// Whether it is pleach.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Contender::Pleach | Contender::PleachWhole)
    }

    fn program(self) -> Option<PathBuf> {
        match self {
            Contender::Pleach | Contender::PleachWhole => Some(pleach()),
            Contender::BareCalls => env::current_exe().ok(),
            Contender::Jdupes => find("jdupes"),
            Contender::Fclones => Some(packages::tools_dir().join("bin/fclones"))
                .filter(|path| path.is_file())
                .or_else(|| find("fclones")),
            Contender::Rmlint => find("rmlint"),
            Contender::Duperemove | Contender::DuperemoveSmall => find("duperemove"),
            Contender::DuperemoveOther => env::var_os(DUPEREMOVE).map(PathBuf::from),
        }
    }

    /// Whether it is installed.
    pub(super) fn is_present(self) -> bool {
        self.program().is_some_and(|path| path.is_file())
    }

    /// Its version in its own words, and its threads.
    pub(super) fn version(self) -> String {
        if self == Contender::BareCalls {
            return format!("for what the dry run named, which is not timed; {} threads", bare::THREADS);
        }
        let first = self.own_words();
        let threads = if self == Contender::Jdupes { "one thread" } else { "as many threads as it likes" };
        format!("{first}; {threads}")
    }

    /// The first line that it prints of its version.
    fn own_words(self) -> String {
        let mut command = Command::new(self.program().unwrap_or_default());
        let done = command.arg("--version").output();
        let said = done.map(|done| [done.stdout, done.stderr].concat()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_string()
    }

    /// What has to be known before the command can run.
    pub(super) fn prepare(self, tree: &Path, own: &Path) -> Result<()> {
        if self == Contender::BareCalls { bare::plan(tree, &own.join("plan")) } else { Ok(()) }
    }

    /// The command for a tree. What it keeps for its next run, and leaves behind in the current directory, goes into `own`.
    pub(super) fn command(self, tree: &Path, own: &Path) -> Command {
        let tool = self.program().unwrap_or_default();
        let mut command = match self {
            Contender::Pleach | Contender::PleachWhole => {
                let mut command = Command::new(tool);
                command.args(["dedupe", "--json", "--cache"]).arg(own.join("cache")).arg(tree);
                if self == Contender::PleachWhole {
                    command.args(["--ranges", "never"]);
                }
                command
            }
            Contender::BareCalls => {
                let mut command = Command::new(tool);
                command.args(["bare-dedupe"]).arg(own.join("plan"));
                command
            }
            Contender::Jdupes => {
                let mut command = Command::new(tool);
                command.args(["--recurse", "--quiet", "--dedupe"]).arg(tree);
                command
            }
            Contender::Fclones => script(
                "\"$tool\" --quiet group --cache \"$tree\" > groups && \"$tool\" --quiet dedupe < groups",
                &tool,
                tree,
                &[],
            ),
            Contender::Rmlint => script(
                "rm -f rmlint.sh && \"$tool\" --types=duplicates --output=sh:rmlint.sh --config=sh:handler=clone \"$tree\" \
                 && if [ -f rmlint.sh ]; then sh ./rmlint.sh -d -x -q; fi",
                &tool,
                tree,
                &[],
            ),
            Contender::Duperemove | Contender::DuperemoveSmall | Contender::DuperemoveOther => {
                let blocks: &[_] = if self == Contender::DuperemoveSmall { &["-b", "4096"] } else { &[] };
                // 22 is its status where nothing is left to do.
                script("\"$tool\" -d -r -q \"$@\" --hashfile=hashes \"$tree\" || [ $? = 22 ]", &tool, tree, blocks)
            }
        };
        command.current_dir(own).env("HOME", own).env("XDG_CACHE_HOME", own).env("LC_ALL", "C");
        command
    }

    /// What it says it has done.
    pub(super) fn told(self, said: &str) -> Option<Told> {
        if !self.is_ours() {
            return None;
        }
        let summary: serde_json::Value = serde_json::from_str(said.lines().last()?).ok()?;
        Some(Told { freed: summary["freed_bytes"].as_u64()?, read: summary["read_bytes"].as_u64()? })
    }
}

/// A script of the shell that finds the tool and the tree in variables of these names, and `flags` as its arguments.
fn script(text: &str, tool: &Path, tree: &Path, flags: &[&str]) -> Command {
    let mut command = program("sh");
    command.args(["-c", text, "sh"]).args(flags).env("tool", tool).env("tree", tree);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::command::output;

    #[test]
    fn what_was_told_is_read_from_the_summary() {
        let said = "{\"type\":\"share\"}\n{\"type\":\"summary\",\"freed_bytes\":12,\"read_bytes\":34}\n";
        assert_eq!(Contender::Pleach.told(said), Some(Told { freed: 12, read: 34 }));
        assert_eq!(Contender::Jdupes.told(said), None);
    }

    #[test]
    fn a_script_is_given_the_tool_the_tree_and_the_flags() {
        let mut echo = script("echo \"$tool $tree\" \"$@\"", Path::new("a"), Path::new("b c"), &["-d"]);
        assert_eq!(output(&mut echo).unwrap(), "a b c -d\n");
    }
}
