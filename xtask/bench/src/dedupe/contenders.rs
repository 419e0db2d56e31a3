//! The contenders: pleach, with and without block ranges, the bare system calls, and the usual tools for the job.

use crate::contender::{Role, first_line};
use crate::floor;
use crate::tools::{installed, own, pleach};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{find, program};
use xtask::packages::Crate;

/// The fclones release to install.
pub(super) const FCLONES: Crate = Crate { name: "fclones", version: "0.35.0", debug: false };

/// The variable with the path of another duperemove, which is measured next to the packaged one.
const DUPEREMOVE: &str = "PLEACH_BENCH_DUPEREMOVE";

/// A contender of this bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Tool {
    /// pleach as a user runs it.
    Pleach,
    /// pleach with whole files only, as most of the other tools work.
    PleachWhole,
    /// The system calls for whole files, on the files that pleach found equal.
    BareCalls,
    Jdupes,
    Fclones,
    Rmlint,
    Duperemove,
    /// With the smallest blocks, since by default it ignores files below 128 KiB.
    DuperemoveSmall,
    /// Another duperemove, from the variable.
    DuperemoveOther,
}

/// All contenders.
pub(super) const ALL: [Tool; 9] = [
    Tool::Pleach,
    Tool::PleachWhole,
    Tool::BareCalls,
    Tool::Jdupes,
    Tool::Fclones,
    Tool::Rmlint,
    Tool::Duperemove,
    Tool::DuperemoveSmall,
    Tool::DuperemoveOther,
];

impl Tool {
    /// Its name in tables.
    pub(super) fn name(self) -> String {
        let name = match self {
            Tool::Pleach => "pleach dedupe",
            Tool::PleachWhole => "pleach dedupe --ranges never",
            Tool::BareCalls => "the bare calls",
            Tool::Jdupes => "jdupes -B",
            Tool::Fclones => "fclones group, dedupe",
            Tool::Rmlint => "rmlint, its script",
            Tool::Duperemove => "duperemove -d",
            Tool::DuperemoveSmall => "duperemove -d -b 4096",
            Tool::DuperemoveOther => {
                let version = self.program().map(|program| first_line(&program, "--version"));
                return format!("{} -d", version.unwrap_or_else(|| format!("duperemove of {DUPEREMOVE}")));
            }
        };
        name.into()
    }

    /// Whether it is pleach.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Tool::Pleach | Tool::PleachWhole)
    }

    pub(super) fn role(self) -> Role {
        match self {
            Tool::Pleach => Role::Ours,
            Tool::PleachWhole => Role::Variant,
            Tool::BareCalls => Role::Floor,
            _ => Role::Peer,
        }
    }

    pub(super) fn program(self) -> Option<PathBuf> {
        match self {
            Tool::Pleach | Tool::PleachWhole => Some(pleach()),
            Tool::BareCalls => own(),
            Tool::Jdupes => find("jdupes"),
            Tool::Fclones => installed(&FCLONES),
            Tool::Rmlint => find("rmlint"),
            Tool::Duperemove | Tool::DuperemoveSmall => find("duperemove"),
            Tool::DuperemoveOther => env::var_os(DUPEREMOVE).map(PathBuf::from),
        }
    }

    /// The command for a tree. Its database for the next run, and files left in the current directory, go into `own`.
    pub(super) fn command(self, tree: &Path, own: &Path) -> Command {
        let tool = self.program().unwrap_or_default();
        let mut command = match self {
            Tool::Pleach | Tool::PleachWhole => {
                let mut command = Command::new(tool);
                command.args(["dedupe", "--json", "--cache"]).arg(own.join("cache")).arg(tree);
                if self == Tool::PleachWhole {
                    command.args(["--ranges", "never"]);
                }
                command
            }
            Tool::BareCalls => {
                let mut command = floor::command(["dedupe"]);
                command.arg(own.join("plan"));
                command
            }
            Tool::Jdupes => {
                let mut command = Command::new(tool);
                command.args(["--recurse", "--quiet", "--dedupe"]).arg(tree);
                command
            }
            Tool::Fclones => script(
                "\"$tool\" --quiet group --cache \"$tree\" > groups && \"$tool\" --quiet dedupe < groups",
                &tool,
                tree,
                &[],
            ),
            Tool::Rmlint => script(
                "rm -f rmlint.sh \
                 && \"$tool\" --types=duplicates --output=sh:rmlint.sh --config=sh:handler=clone \"$tree\" \
                 && if [ -f rmlint.sh ]; then sh ./rmlint.sh -d -x -q; fi",
                &tool,
                tree,
                &[],
            ),
            Tool::Duperemove | Tool::DuperemoveSmall | Tool::DuperemoveOther => {
                let blocks: &[_] = if self == Tool::DuperemoveSmall { &["-b", "4096"] } else { &[] };
                // duperemove exits with 22 if nothing is left to do.
                script("\"$tool\" -d -r -q \"$@\" --hashfile=hashes \"$tree\" || [ $? = 22 ]", &tool, tree, blocks)
            }
        };
        command.current_dir(own).env("HOME", own).env("XDG_CACHE_HOME", own).env("LC_ALL", "C");
        command
    }
}

/// A shell script that finds the tool and the tree in variables of these names, and `flags` as its arguments.
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
    fn a_script_is_given_the_tool_the_tree_and_the_flags() {
        let mut echo = script("echo \"$tool $tree\" \"$@\"", Path::new("a"), Path::new("b c"), &["-d"]);
        assert_eq!(output(&mut echo).unwrap(), "a b c -d\n");
    }
}
