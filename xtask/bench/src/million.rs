//! `cargo xtask bench snapshot --million`: the memory that pleach takes for a tree of 1,000,000 small files.
//!
//! Two shapes: a thousand directories of a thousand files, and all files in one directory, which is the hardest case for
//! a walker whose memory is for the directories in flight.

use super::measure::{Cache, sample};
use super::snapshot::Options;
use super::{pleach, report};
use anyhow::{Result, bail};
use std::fs;
use std::path::Path;
use xtask::command::program;
use xtask::image::Mounted;
use xtask::space;

/// The most that a run may take.
const LIMIT: u64 = 400 << 20;

/// Runs the bench inside the namespaces.
pub(super) fn run(dir: &Path, options: &Options) -> Result<()> {
    for &kind in &options.common.kinds {
        let mut rows = Vec::new();
        let mut most = 0;
        for (shape, dirs) in [("1,000 directories", 1000), ("one directory", 1)] {
            let fs = Mounted::create(kind, dir, kind.name(), 20 << 10)?;
            let (tree, repo) = (fs.path().join("tree"), fs.path().join("repo"));
            println!("{}: writing 1,000,000 files in {shape}", kind.name());
            fill(&tree, dirs)?;
            for run in ["first", "second"] {
                Cache::Cold.prepare(fs.path(), &tree, &[])?;
                let mut command = program(pleach());
                let taken = sample(command.args(["snapshot", "--quiet"]).arg(&tree).arg(&repo), fs.path())?;
                let memory = report::mebibytes(taken.memory as f64);
                println!("{} {shape}, {run} snapshot: {memory} MiB", kind.name());
                most = most.max(taken.memory);
                rows.push(vec![
                    format!("{shape}, {run} snapshot"),
                    memory,
                    format!("{:.1}", taken.wall.as_secs_f64()),
                    format!("{:.1}", taken.user.as_secs_f64()),
                    format!("{:.1}", taken.system.as_secs_f64()),
                ]);
            }
        }
        let mut text = format!("## 1,000,000 small files on {}\n\n", kind.title());
        text.push_str(
            "Peak memory (the kernel's maximum resident set) of one snapshot with a cold cache; files of 64 to 563 ",
        );
        text.push_str(&format!("bytes. {}.\n\n", report::machine()));
        text.push_str(&report::table(&["", "peak memory MiB", "wall s", "user s", "system s"], &rows));
        println!("\n{text}");
        report::write(&format!("snapshot million {}", kind.name()), &text)?;
        if most > LIMIT {
            bail!("a snapshot took {} MiB; the limit is {} MiB", most >> 20, LIMIT >> 20);
        }
    }
    Ok(())
}

fn fill(tree: &Path, dirs: u32) -> Result<()> {
    let content = [b'x'; 1000];
    for number in 0..dirs {
        let dir = tree.join(format!("{number:04}"));
        fs::create_dir_all(&dir)?;
        for file in 0..1_000_000 / dirs {
            fs::write(dir.join(format!("file-{file:07}")), &content[..64 + file as usize % 500])?;
        }
    }
    space::sync(tree)
}
