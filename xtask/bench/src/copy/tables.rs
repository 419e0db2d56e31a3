//! Two tables of the texts that this project began with, remade: what the size of a buffer does to a copy, and what a buffer does to
//! many small records.

use crate::measure::median;
use crate::report::{self, thousands};
use anyhow::{Context, Result, anyhow};
use pleach::copy::{self, Engine, Ladder, Request};
use pleach::monitor::Silent;
use pleach::status::Status;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;
use xtask::command::output;
use xtask::image::{Kind, Mounted};
use xtask::noise::Noise;
use xtask::space;

/// The file that is copied, and the calls after which it is long enough.
const FILE: u64 = 256 << 20;
const MOST_CALLS: u64 = 4 << 20;
/// All records together.
const RECORDS: u64 = 100 << 20;
/// What the buffered writer holds back.
const BUFFER: usize = 64 << 10;

/// Has both measured on an XFS.
pub(super) fn run(dir: &Path, percent: u64, runs: u32) -> Result<()> {
    let fs = Mounted::create(Kind::Xfs, dir, "xfs", 4 << 10)?;
    let mut measure = Command::new(std::env::current_exe()?);
    measure.args(["bare-tables", &percent.to_string(), &runs.to_string()]).arg(fs.path());
    let tables = output(measure.stderr(Stdio::inherit()))?;
    fs.check()?;
    let text = format!("## Buffers and records\n\n{}. Medians of {runs} runs, on XFS.\n\n{tables}", report::machine());
    println!("\n{text}");
    if percent == 100 {
        report::write("copy tables", &text)?;
    }
    Ok(())
}

/// Measures both in the directory `root`, and prints the tables. It takes a release build: loops over single bytes are all
/// that some rows are.
pub(crate) fn measure(root: &Path, percent: u64, runs: u32) -> Result<()> {
    let buffers = buffers(root, FILE * percent / 100, runs)?;
    let records = records(root, RECORDS * percent / 100, runs)?;
    println!("{buffers}\n{records}");
    Ok(())
}

/// How long some work with a new file takes, in seconds.
fn timed(root: &Path, runs: u32, mut work: impl FnMut(&File) -> Result<()>) -> Result<f64> {
    let mut taken = Vec::new();
    for _ in 0..runs {
        let file = new(root)?;
        let begin = Instant::now();
        work(&file)?;
        taken.push(begin.elapsed().as_secs_f64());
    }
    Ok(median(taken))
}

/// A new file for the next run; the last one is gone, and that is written out.
fn new(root: &Path) -> Result<File> {
    let path = root.join("target");
    let _ = fs::remove_file(&path);
    space::sync(root)?;
    File::options().read(true).write(true).create_new(true).open(path).context("cannot make a file to write")
}

fn buffers(root: &Path, size: u64, runs: u32) -> Result<String> {
    let source = root.join("source");
    let mut noise = Noise::from(11);
    let mut file = File::create(&source)?;
    for _ in 0..size.div_ceil(1 << 20) {
        file.write_all(&noise.bytes(1 << 20))?;
    }
    file.sync_all()?;
    let mut rows = Vec::new();
    for buffer in [1, 16, 256, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let length = size.min(MOST_CALLS * buffer);
        eprintln!("buffers of {buffer} bytes");
        let alone = timed(root, runs, |to| one_buffer(&source, to, length, buffer as usize))?;
        // Handing over a few bytes takes longer than copying them.
        let beside = match buffer {
            ..4096 => None,
            _ => Some(timed(root, runs, |to| two_buffers(&source, to, length, buffer as usize))?),
        };
        let rate = |seconds: f64| format!("{:.1}", length as f64 / f64::from(1 << 20) / seconds);
        rows.push(vec![
            thousands(buffer),
            thousands(2 * length.div_ceil(buffer)),
            format!("{:.0}", length as f64 / f64::from(1 << 20)),
            rate(alone),
            beside.map_or("–".into(), rate),
        ]);
    }
    for (name, hashed) in [("the engine `buffered`", false), ("the same, hashing", true)] {
        let taken = timed(root, runs, |to| engine(&source, to, hashed))?;
        let rate = format!("{:.1}", size as f64 / f64::from(1 << 20) / taken);
        rows.push(vec![name.into(), "–".into(), format!("{:.0}", size as f64 / f64::from(1 << 20)), "–".into(), rate]);
    }
    fs::remove_file(source)?;
    Ok(format!(
        "### Buffer sizes\n\nA file in the page cache, copied by read and write, and synced. One buffer: a write follows each read. Two: one is read\n\
         into while the other is written.\n\n{}",
        report::table(&["buffer, bytes", "calls", "MiB", "one buffer, MiB/s", "two, MiB/s"], &rows)
    ))
}

fn one_buffer(source: &Path, mut to: &File, length: u64, buffer: usize) -> Result<()> {
    let mut from = File::open(source)?.take(length);
    let mut buffer = vec![0; buffer];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(to.sync_all()?),
            got => to.write_all(&buffer[..got])?,
        }
    }
}

fn two_buffers(source: &Path, mut to: &File, length: u64, length_of_one: usize) -> Result<()> {
    let mut from = File::open(source)?.take(length);
    thread::scope(|scope| {
        let (full, to_write) = sync_channel::<Vec<u8>>(1);
        let (empty, to_read) = sync_channel(2);
        for _ in 0..2 {
            empty.send(vec![0; length_of_one])?;
        }
        let reader = scope.spawn(move || -> Result<()> {
            for mut buffer in to_read {
                buffer.resize(length_of_one, 0);
                let got = from.read(&mut buffer)?;
                buffer.truncate(got);
                if got == 0 || full.send(buffer).is_err() {
                    break;
                }
            }
            Ok(())
        });
        for buffer in to_write {
            to.write_all(&buffer)?;
            // The reader may have ended with the file.
            let _ = empty.send(buffer);
        }
        drop(empty);
        reader.join().map_err(|_| anyhow!("the reader panicked"))??;
        Ok(to.sync_all()?)
    })
}

fn engine(source: &Path, to: &File, hashed: bool) -> Result<()> {
    let from = File::open(source)?;
    let request = Request { engine: Some(Engine::Buffered), hashed };
    copy::content(from.as_fd(), &Status::of(&from)?, to.as_fd(), &Ladder::new(), &request, &Silent)
        .map_err(|error| anyhow!("the engine failed: {error:?}"))?;
    Ok(to.sync_all()?)
}

fn records(root: &Path, size: u64, runs: u32) -> Result<String> {
    let mut rows = Vec::new();
    // 62 bytes is what an entry takes in a manifest.
    for record in [1, 10, 62, 1 << 10, 4 << 10] {
        eprintln!("records of {record} bytes");
        let bytes = Noise::from(5).bytes(record);
        let count = size / record as u64;
        let mut cells = vec![thousands(record as u64), thousands(count)];
        for buffered in [false, true] {
            let mut unsynced = Vec::new();
            let synced = timed(root, runs, |mut file| {
                let begin = Instant::now();
                match buffered {
                    true => write_all(&mut BufWriter::with_capacity(BUFFER, file), &bytes, count)?,
                    false => write_all(&mut file, &bytes, count)?,
                }
                unsynced.push(begin.elapsed().as_secs_f64());
                Ok(file.sync_all()?)
            })?;
            cells.extend([format!("{:.2}", median(unsynced)), format!("{synced:.2}")]);
        }
        cells.push(format!("{:.2}", each_synced(root, &bytes)?));
        rows.push(cells);
    }
    Ok(format!(
        "### Record sizes\n\n{:.0} MiB of records, each by a write of its own, and through a buffer of {} KiB, as manifests and caches are\n\
         written; seconds without and with the one sync at the end. The last column is what a sync after each record takes.\n\n{}",
        size as f64 / f64::from(1 << 20),
        BUFFER >> 10,
        report::table(
            &[
                "record, bytes",
                "records",
                "one by one s",
                "synced s",
                "buffered s",
                "synced s",
                "each synced, ms a record"
            ],
            &rows
        )
    ))
}

fn write_all(to: &mut impl Write, record: &[u8], count: u64) -> Result<()> {
    for _ in 0..count {
        to.write_all(record)?;
    }
    Ok(to.flush()?)
}

/// Milliseconds for each of some records that are synced one by one.
fn each_synced(root: &Path, record: &[u8]) -> Result<f64> {
    const COUNT: u64 = 200;
    let file = new(root)?;
    let begin = Instant::now();
    for number in 0..COUNT {
        file.write_all_at(record, number * record.len() as u64)?;
        file.sync_data()?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3 / COUNT as f64)
}
