//! One command, timed: alone, and with the sync of its destination; with what it used of processor and memory.

use super::watch;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wait4::Wait4;
use xtask::command::line;
use xtask::space;

/// What one run took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// The command, from its start to its end.
    pub(crate) wall: Duration,
    /// The same, and then `sync -f` of where it wrote.
    pub(crate) synced: Duration,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// The most memory it had, in bytes.
    pub(crate) memory: u64,
    /// Bytes it had the devices read.
    pub(crate) read: u64,
    /// The most threads it had at once, of all its processes.
    pub(crate) threads: u64,
}

/// Runs a command and syncs the filesystem at `destination`.
pub(crate) fn sample(command: &mut Command, destination: &Path) -> Result<Sample> {
    sample_into(command, destination, Stdio::null())
}

/// The same, with what it prints going to `stdout`.
pub(crate) fn sample_into(command: &mut Command, destination: &Path, stdout: Stdio) -> Result<Sample> {
    let mut errors = temporary_file()?;
    let begin = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(stdout)
        // A file and no pipe: nobody has to empty it while the command runs.
        .stderr(errors.try_clone()?)
        .spawn()
        .with_context(|| format!("cannot run {}", line(command)))?;
    let seen = watch::to_the_end(&child);
    let used = child.wait4()?;
    let wall = begin.elapsed();
    if !used.status.success() {
        let mut said = Vec::new();
        errors.seek(SeekFrom::Start(0))?;
        errors.read_to_end(&mut said)?;
        bail!("{} failed ({}):\n{}", line(command), used.status, String::from_utf8_lossy(&said));
    }
    space::sync(destination)?;
    let synced = begin.elapsed();
    let rusage = used.rusage;
    let watch::Seen { memory, read, threads } = seen;
    Ok(Sample { wall, synced, user: rusage.utime, system: rusage.stime, memory, read, threads })
}

/// A file without a name.
pub(crate) fn temporary_file() -> Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    let fd = memfd_create("xtask", MemfdFlags::CLOEXEC).context("cannot make a file in memory")?;
    Ok(File::from(fd))
}

/// What a run finds in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Cache {
    /// Nothing of the filesystem.
    Cold,
    /// The tree's content, and all its names and inodes.
    Warm,
}

impl Cache {
    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cache::Cold => "cold",
            Cache::Warm => "warm",
        }
    }

    /// Brings it about. `read` is read whole; of `known` only names and inodes.
    pub(crate) fn prepare(self, filesystem: &Path, read: &Path, known: &[&Path]) -> Result<()> {
        space::sync(filesystem)?;
        match self {
            Cache::Cold => fs::write("/proc/sys/vm/drop_caches", "3").context("cannot drop the caches"),
            Cache::Warm => {
                visit(read, &mut |path| read_whole(path))?;
                known.iter().try_for_each(|dir| visit(dir, &mut |_| Ok(())))
            }
        }
    }
}

fn visit(dir: &Path, file: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            visit(&entry.path(), file)?;
        } else if meta.is_file() {
            file(&entry.path())?;
        }
    }
    Ok(())
}

/// Reads all data of a file; its holes would only fill the memory with zeros.
fn read_whole(path: &Path) -> Result<()> {
    use rustix::fs::{SeekFrom, seek};
    let mut buffer = [0; 65_536];
    let file = File::open(path)?;
    let mut end = 0;
    while let Ok(begin) = seek(&file, SeekFrom::Data(end)) {
        end = seek(&file, SeekFrom::Hole(begin))?;
        let mut at = begin;
        while at < end {
            let length = buffer.len().min((end - at) as usize);
            match file.read_at(&mut buffer[..length], at)? {
                0 => return Ok(()),
                read => at += read as u64,
            }
        }
    }
    Ok(())
}

/// The order in which a round takes its contenders: every other one backwards, so that nobody always follows the same one.
pub(crate) fn turns(round: u32, contenders: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..contenders).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[length / 2],
        length => f64::midpoint(values[length / 2 - 1], values[length / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_go_forth_and_back() {
        assert_eq!([turns(0, 3), turns(1, 3), turns(2, 3)], [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }
}
