//! `cargo xtask bench put`: a text of 5 million lines that replaces its last version. In three cases sed changes a few
//! lines in place, a block is inserted at the beginning, or the text is made anew. Contenders: `pleach put`, and the
//! shell's `>` with fsync and rename, written by sed itself or by `cat` in a pipe.
//!
//! A clone of the last version stays, as in a snapshot, so the space added on the disk is the cost of the new version.

use crate::contender::{Contender, Figures, Role};
use crate::record::{About, finish};
use crate::report;
use crate::runner::{self, Plan};
use crate::session::{self, Common, ensure_usual};
use crate::stage::Stage;
use crate::tools::pleach;
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{find, output, program};
use xtask::image::Kind;
use xtask::noise::Noise;

/// The number of lines for recorded figures.
const LINES: u64 = 5_000_000;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each way is taken; medians are given
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// How many lines the text has; only the usual number can be recorded
    #[arg(long, default_value_t = LINES, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    lines: u64,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.lines == LINES)?;
    session::on_each(&options.common.kinds, || Ok(()), |kind, dir| on(kind, dir, options, save))
}

/// The source of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Changed,
    Inserted,
    New,
}

impl Case {
    fn title(self) -> &'static str {
        match self {
            Case::Changed => "three lines changed",
            Case::Inserted => "a block put in before it",
            Case::New => "a new file",
        }
    }

    /// The shell command that prints the new content.
    pub(crate) fn stream(self, lines: u64) -> String {
        match self {
            Case::Changed => {
                let (middle, last) = (lines / 2, lines - 10);
                format!("sed -e '1000s/^00/zz/' -e '{middle}s/^00/zz/' -e '{last}s/^00/zz/' text")
            }
            Case::Inserted => "cat block text".into(),
            Case::New => "cat text".into(),
        }
    }
}

/// How the stream is written to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Put,
    Cat,
    /// By the stream's own program, without a pipe.
    Direct,
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    // Three times the text, and the same again for space that is being freed.
    let mut stage = Stage::new(dir, (kind, ((options.lines * 84 * 6) >> 20) + (1 << 10)), None)?;
    let root = stage.source().to_path_buf();
    println!("{}: writing the text", kind.name());
    write_text(&root.join("text"), options.lines)?;
    write_text(&root.join("kept"), options.lines)?;
    fs::write(root.join("block"), Noise::from(9).bytes(4096))?;
    let size = fs::metadata(root.join("text"))?.len();
    let sizes = format!("{} lines, {} bytes", report::thousands(options.lines), report::thousands(size));
    // The stream's program must not wait for the disk.
    stage.always = vec![root.join("text"), root.join("block")];
    for &cache in &options.common.caches {
        for case in [Case::Changed, Case::Inserted, Case::New] {
            stage.warm = if case == Case::New { Vec::new() } else { vec![root.join("file")] };
            let hows = [How::Put, How::Cat, How::Direct];
            let hows = &hows[..if case == Case::Changed { 3 } else { 2 }];
            let all: Vec<_> = hows.iter().map(|&how| Way { how, case, lines: options.lines }).collect();
            let title = format!("{}, {}, {}", case.title(), kind.title(), cache.name());
            let plan = Plan { label: title.clone(), rounds: options.runs, cache };
            let rows = runner::run(&mut stage, &all, &plan)?;
            let about = About { question: "put", title, sizes: &sizes, checked: "the file equals the stream" };
            finish(about, &plan, &rows, save)?;
        }
    }
    stage.strike()
}

/// Writes lines of 84 bytes, one in five of 83: 5 million lines are 419 MB. The writes go to the disk as those of `cat`
/// would.
pub(crate) fn write_text(path: &Path, lines: u64) -> Result<()> {
    let mut text = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut noise = Noise::from(7);
    for line in 0..lines {
        let words: String = noise.bytes(36).iter().map(|byte| format!("{byte:02x}")).collect();
        let length = if line % 5 == 0 { 71 } else { 72 };
        writeln!(text, "{line:010} {}", &words[..length])?;
    }
    Ok(text.into_inner().context("cannot write the text")?.sync_all()?)
}

struct Way {
    how: How,
    case: Case,
    lines: u64,
}

impl Contender for Way {
    fn name(&self) -> String {
        match self.how {
            How::Put => "`… \\| pleach put file`",
            How::Cat => "`cat > new`, fsync, rename",
            How::Direct => "`sed > new`, fsync, rename",
        }
        .into()
    }

    fn role(&self) -> Role {
        if self.how == How::Put { Role::Ours } else { Role::Peer }
    }

    fn program(&self) -> Option<PathBuf> {
        match self.how {
            How::Put => Some(pleach()),
            How::Cat => find("cat"),
            How::Direct => find("sed"),
        }
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        let (file, kept) = (stage.source().join("file"), stage.source().join("kept"));
        if file.exists() {
            fs::remove_file(&file)?;
        }
        if self.case != Case::New {
            output(program("cp").arg("--reflink=always").arg(kept).arg(&file))?;
        }
        stage.mark()
    }

    fn command(&self, stage: &Stage) -> Command {
        let stream = self.case.stream(self.lines);
        let script = match self.how {
            How::Put => format!("{stream} | '{}' put --quiet file", pleach().display()),
            How::Cat => format!("{stream} | cat > new && sync new && mv new file"),
            How::Direct => format!("{stream} > new && sync new && mv new file"),
        };
        shell(&script, stage)
    }

    fn check(&self, stage: &mut Stage, _said: &str) -> Result<Figures> {
        let compare = format!("{} | cmp - file", self.case.stream(self.lines));
        output(&mut shell(&compare, stage)).context("the file is not the stream")?;
        let shared = shared(&stage.source().join("file"))?;
        Ok(Figures::from([("added_bytes", stage.added()?), ("shared_bytes", shared)]))
    }
}

pub(crate) fn shell(script: &str, stage: &Stage) -> Command {
    let mut shell = program("bash");
    shell.args(["-o", "pipefail", "-c", script]).current_dir(stage.source()).env("LC_ALL", "C");
    shell
}

/// The bytes of a file that xfs_io reports as shared.
fn shared(path: &Path) -> Result<f64> {
    Ok(shared_sectors(&output(program("xfs_io").args(["-r", "-c", "fiemap -v"]).arg(path))?) as f64 * 512.0)
}

/// The sectors in lines such as `0: [0..7]:  96..103   8  0x2001`.
fn shared_sectors(listed: &str) -> u64 {
    let words = listed.lines().map(|line| line.split_whitespace().rev().take(2).collect::<Vec<_>>());
    let extents = words.filter_map(|words| {
        let flags = u32::from_str_radix(words.first()?.strip_prefix("0x")?, 16).ok()?;
        (flags & 0x2000 != 0).then(|| words.get(1)?.parse::<u64>().ok()).flatten()
    });
    extents.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_extents_are_those_with_the_flag() {
        let listed =
            "file:\n EXT: FILE-OFFSET BLOCK-RANGE TOTAL FLAGS\n 0: [0..7]: 96..103 8 0x2000\n 1: [8..9]: 1..2 2 0x1\n";
        assert_eq!(shared_sectors(listed), 8);
    }
}
