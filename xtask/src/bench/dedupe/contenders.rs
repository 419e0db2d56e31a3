//! Who takes part: pleach, with and without block ranges, and the tools that one would use instead.

use crate::bench::pleach;
use crate::command::{find, program};
use crate::packages;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release of fclones that is installed.
pub(super) const FCLONES: &str = "0.35.0";

/// The variable that names another duperemove than the packaged one.
const DUPEREMOVE: &str = "PLEACH_BENCH_DUPEREMOVE";

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Contender {
    /// As a user runs it.
    Pleach,
    /// Whole files only, which is what most of the others do.
    PleachWhole,
    Jdupes,
    Fclones,
    Rmlint,
    Duperemove,
    /// With the smallest blocks, since by default it passes over files below 128 KiB.
    DuperemoveSmall,
}

/// All of them.
pub(super) const ALL: [Contender; 7] = [
    Contender::Pleach,
    Contender::PleachWhole,
    Contender::Jdupes,
    Contender::Fclones,
    Contender::Rmlint,
    Contender::Duperemove,
    Contender::DuperemoveSmall,
];

impl Contender {
    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Contender::Pleach => "pleach dedupe",
            Contender::PleachWhole => "pleach dedupe --ranges never",
            Contender::Jdupes => "jdupes -B",
            Contender::Fclones => "fclones group, dedupe",
            Contender::Rmlint => "rmlint, its script",
            Contender::Duperemove => "duperemove -d",
            Contender::DuperemoveSmall => "duperemove -d -b 4096",
        }
    }

    fn is_ours(self) -> bool {
        matches!(self, Contender::Pleach | Contender::PleachWhole)
    }

    fn program(self) -> Option<PathBuf> {
        match self {
            Contender::Pleach | Contender::PleachWhole => Some(pleach()),
            Contender::Jdupes => find("jdupes"),
            Contender::Fclones => Some(packages::tools_dir().join("bin/fclones"))
                .filter(|path| path.is_file())
                .or_else(|| find("fclones")),
            Contender::Rmlint => find("rmlint"),
            Contender::Duperemove | Contender::DuperemoveSmall => {
                env::var_os(DUPEREMOVE).map(PathBuf::from).or_else(|| find("duperemove"))
            }
        }
    }

    /// Whether it is installed.
    pub(super) fn is_present(self) -> bool {
        self.program().is_some_and(|path| path.is_file())
    }

    /// Its version in its own words, and its threads.
    pub(super) fn version(self) -> String {
        let mut command = Command::new(self.program().unwrap_or_default());
        let done = command.arg("--version").output();
        let said = done.map(|done| [done.stdout, done.stderr].concat()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        let threads = if self == Contender::Jdupes { "one thread" } else { "as many threads as it likes" };
        format!("{first}; {threads}")
    }

    /// The command for a tree. What it keeps for its next run goes into `own`.
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
            Contender::Jdupes => {
                let mut command = Command::new(tool);
                command.args(["--recurse", "--quiet", "--dedupe"]).arg(tree);
                command
            }
            Contender::Fclones => script(
                "\"$1\" --quiet group --cache \"$2\" > \"$3/groups\" && \"$1\" --quiet dedupe < \"$3/groups\"",
                &tool,
                tree,
                own,
            ),
            Contender::Rmlint => script(
                "rm -f \"$3/rmlint.sh\" && \"$1\" --types=duplicates --output=\"sh:$3/rmlint.sh\" --config=sh:handler=clone \"$2\" \
                 && if [ -f \"$3/rmlint.sh\" ]; then sh \"$3/rmlint.sh\" -d -x -q; fi",
                &tool,
                tree,
                own,
            ),
            // 22 is its status where nothing is left to do.
            Contender::Duperemove => {
                script("\"$1\" -d -r -q --hashfile=\"$3/hashes\" \"$2\" || [ $? = 22 ]", &tool, tree, own)
            }
            Contender::DuperemoveSmall => {
                script("\"$1\" -d -r -q -b 4096 --hashfile=\"$3/hashes\" \"$2\" || [ $? = 22 ]", &tool, tree, own)
            }
        };
        command.env("HOME", own).env("XDG_CACHE_HOME", own).env("LC_ALL", "C");
        command
    }

    /// What it says it has freed.
    pub(super) fn told(self, said: &str) -> Option<u64> {
        if !self.is_ours() {
            return None;
        }
        let summary: serde_json::Value = serde_json::from_str(said.lines().last()?).ok()?;
        summary["freed_bytes"].as_u64()
    }
}

/// A script of the shell with the tool, the tree and the directory for its own files as `$1`, `$2` and `$3`.
fn script(text: &str, tool: &Path, tree: &Path, own: &Path) -> Command {
    let mut command = program("sh");
    command.args(["-c", text, "sh"]).arg(tool).arg(tree).arg(own);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::output;

    #[test]
    fn what_was_told_is_read_from_the_summary() {
        let said = "{\"type\":\"share\"}\n{\"type\":\"summary\",\"freed_bytes\":12}\n";
        assert_eq!(Contender::Pleach.told(said), Some(12));
        assert_eq!(Contender::Jdupes.told(said), None);
        let mut echo = script("echo \"$2\"", Path::new("a"), Path::new("b"), Path::new("c"));
        assert_eq!(output(&mut echo).unwrap(), "b\n");
    }
}
