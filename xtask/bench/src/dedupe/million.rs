//! `cargo xtask bench dedupe --million`: the memory that pleach takes for 1,000,000 small files, each of them twice.
//!
//! Two shapes: files of many sizes, and files of one size, which is the hardest case for a program whose memory is for the
//! sizes in hand. Each shape is deduped twice with a cache, and on another copy of the image twice without.

use super::Options;
use crate::measure::{Cache, sample_into, temporary_file};
use crate::{pleach, report};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use xtask::command::{output, program};
use xtask::image::{Kind, Mounted};
use xtask::space;

/// The most that a run may take.
const LIMIT: u64 = 300 << 20;

const FILES: u32 = 1_000_000;

/// How long the files are.
#[derive(Clone, Copy)]
enum Shape {
    /// 4 to 8 KiB.
    ManySizes,
    /// All of them the same.
    OneSize,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::ManySizes => "4 to 8 KiB",
            Shape::OneSize => "all of 6,000 bytes",
        }
    }

    fn size(self, content: u32) -> usize {
        match self {
            Shape::ManySizes => 4096 + content as usize * 7919 % 4097,
            Shape::OneSize => 6000,
        }
    }
}

/// Runs the bench inside the namespaces.
pub(super) fn run(dir: &Path, options: &Options) -> Result<()> {
    for &kind in &options.common.kinds {
        let (mut rows, mut most) = (Vec::new(), 0);
        for shape in [Shape::ManySizes, Shape::OneSize] {
            println!("{}: writing 1,000,000 files, {}", kind.name(), shape.name());
            let pristine = Mounted::create(kind, dir, "pristine", 24 << 10)?;
            fill(&pristine.path().join("tree"), shape)?;
            drop(pristine);
            let (pristine, copy) = (dir.join("pristine.img"), dir.join("run.img"));
            output(program("cp").args(["--sparse=always", "--reflink=auto"]).arg(&pristine).arg(&copy))?;
            for (image, cached) in [(&copy, true), (&pristine, false)] {
                most = most.max(twice(kind, shape, image, cached, dir, &mut rows)?);
                fs::remove_file(image)?;
            }
        }
        let text = section(kind, &rows);
        println!("\n{text}");
        report::write(&format!("dedupe million {}", kind.name()), &text)?;
        if most > LIMIT {
            bail!("a dedupe took {} MiB; the limit is {} MiB", most >> 20, LIMIT >> 20);
        }
    }
    Ok(())
}

/// Two runs over an image, and the most memory that one of them took.
fn twice(kind: Kind, shape: Shape, image: &Path, cached: bool, dir: &Path, rows: &mut Vec<Vec<String>>) -> Result<u64> {
    let cache = dir.join("cache");
    let mut fs = Mounted::open(kind, image, &dir.join("run"))?;
    let mut most = 0;
    for run in ["first", "second"] {
        fs.remount()?;
        let tree = fs.path().join("tree");
        Cache::Cold.prepare(fs.path(), &tree, &[])?;
        let mut command = program(pleach());
        command.args(["dedupe", "--json"]).arg(&tree);
        if cached {
            command.arg("--cache").arg(&cache);
        } else {
            command.arg("--no-cache");
        }
        let mut said = temporary_file()?;
        let taken = sample_into(&mut command, fs.path(), said.try_clone()?.into())?;
        let mut text = String::new();
        said.seek(SeekFrom::Start(0))?;
        said.read_to_string(&mut text)?;
        let summary: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
        let field = |name: &str| summary[name].as_u64().with_context(|| format!("the summary has no {name}"));
        ensure!(field("files")? == u64::from(FILES), "not all files were found: {summary}");
        let duplicates = if run == "first" { u64::from(FILES / 2) } else { 0 };
        ensure!(field("duplicate_files")? == duplicates, "not all pairs were shared, or some twice: {summary}");
        let row = vec![
            format!("{}, {run} run{}", shape.name(), if cached { "" } else { ", `--no-cache`" }),
            report::mebibytes(taken.memory as f64),
            format!("{:.1}", taken.wall.as_secs_f64()),
            format!("{:.1}", taken.user.as_secs_f64()),
            format!("{:.1}", taken.system.as_secs_f64()),
            report::mebibytes(field("freed_bytes")? as f64),
            report::mebibytes(field("read_bytes")? as f64),
        ];
        println!("{}: {}", kind.name(), row.join(" | "));
        most = most.max(taken.memory);
        rows.push(row);
    }
    if cached {
        fs::remove_file(cache)?;
    }
    fs.check()?;
    Ok(most)
}

fn section(kind: Kind, rows: &[Vec<String>]) -> String {
    let mut text = format!("## Dedupe of 1,000,000 small files on {}\n\n", kind.title());
    text.push_str(
        "Peak memory (the kernel's maximum resident set) of one dedupe with a cold cache; 500,000 different files in a thousand\n\
         directories, each of them twice. ",
    );
    text.push_str(&format!("{}.\n\n", report::machine()));
    let heading = ["", "peak memory MiB", "wall s", "user s", "system s", "freed MiB", "read MiB"];
    text.push_str(&report::table(&heading, rows));
    text
}

fn fill(tree: &Path, shape: Shape) -> Result<()> {
    let mut content: Vec<u8> = (0..8192_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for number in 0..FILES {
        let dir = tree.join(format!("{:04}", number / 1000));
        if number % 1000 == 0 {
            fs::create_dir_all(&dir)?;
        }
        let of = number % (FILES / 2);
        content[..4].copy_from_slice(&of.to_le_bytes());
        File::create(dir.join(format!("file-{number:07}")))?.write_all(&content[..shape.size(of)])?;
    }
    space::sync(tree)
}
